"""The code that workers run: copied when a job is made, so that editing the checkout during a sweep changes nothing.

`<outputs>/code/<sha256>/` holds the packages and `conf/`, under the hash of all their names and contents: jobs of the
same code share one copy. Files are copied, never linked, as an editor may write into the file that it has open.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from orchestrator.store.store import StoreError

FOLDERS = ("agents", "conf", "evaluation", "orchestrator", "problems")
"""Folders of the checkout that a worker needs."""
_SKIPPED = "__pycache__"


def take_snapshot(checkout: Path, folder: Path) -> Path:
    """Copy the checkout's code below `folder`, unless it is there; returns the copy's own folder.

    Raises StoreError when the copy that is there has been changed.
    """
    contents = _contents(checkout)
    digest = _digest(contents)
    copy = folder.resolve() / digest
    if not copy.is_dir():
        _write(contents, copy)
    elif _digest(_contents(copy)) != digest:
        raise StoreError(f"the code in {copy} is not what its name says: delete that folder, and run again")
    return copy


def _contents(root: Path) -> dict[str, bytes]:
    """Relative path -> bytes of every file; hidden ones and compiled ones are left out."""
    found: dict[str, bytes] = {}
    for top in FOLDERS:
        for where, folders, files in os.walk(root / top, followlinks=True):
            folders[:] = [name for name in folders if name != _SKIPPED and not name.startswith(".")]
            for path in (Path(where, name) for name in files if not name.startswith(".")):
                found[path.relative_to(root).as_posix()] = path.read_bytes()
    return dict(sorted(found.items()))


def _digest(contents: dict[str, bytes]) -> str:
    lines = (f"{name}\0{hashlib.sha256(data).hexdigest()}\n" for name, data in contents.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _write(contents: dict[str, bytes], copy: Path) -> None:
    """Write all into a folder of another name, then rename it: a copy is whole, also when two jobs make it at once."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=copy.parent, prefix=".new-", ignore_cleanup_errors=True) as scratch:
        new = Path(scratch) / "code"
        for name, data in contents.items():
            path = new / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o444)
        try:
            new.rename(copy)
        except OSError:
            if not copy.is_dir():
                raise
            shutil.rmtree(new)  # another job was faster

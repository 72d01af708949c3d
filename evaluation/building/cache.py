"""The store of builds: content-addressed, verified on load, safe for several hosts on one file system.

<folder>/<first two digits>/<key>/entry.json, object.so. An entry appears whole, by the rename of a folder: whoever
comes second finds it there and leaves it. Nothing is locked here, because locks on network file systems are not to
be relied upon. A failure is an entry without an object.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from evaluation.serialize import from_plain, to_plain

_OBJECT, _ENTRY, _TRASH = "object.so", "entry.json", ".trash"
# One byte is appended for every request that was answered from the store, or was not.
_HITS, _MISSES = "hits", "misses"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is kept of one build."""

    tier: str
    wall_s: float
    """Seconds that the build took."""
    sha256: str | None
    """Of the object; None for a failure."""
    diagnostics: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """Size of the store, and the hits and misses since it was made."""

    entries: int
    size_bytes: int
    hits: int
    misses: int


class Cache:
    """Builds by key. Thread-safe; any number of processes and hosts may share the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> tuple[Entry, Path | None] | None:
        """The entry and its object's path, or None. An object that is not what was stored is thrown away."""
        place = self._place(key)
        try:
            entry = from_plain(Entry, json.loads((place / _ENTRY).read_text()))
            path = None if entry.sha256 is None else place / _OBJECT
            intact = path is None or _sha256(path) == entry.sha256
        except (FileNotFoundError, ValueError):
            intact = False
        if not intact:
            self._remove(place)
            return None
        with contextlib.suppress(OSError):  # the age for prune; a read-only store has none
            os.utime(place / _ENTRY)
        return entry, path

    def count(self, *, hit: bool) -> None:
        """Note for `stats` whether a request was answered from the store."""
        with contextlib.suppress(OSError):  # as above
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / (_HITS if hit else _MISSES)).open("ab") as file:
                file.write(b".")

    def put(self, key: str, entry: Entry, built: Path | None) -> Path | None:
        """Store an entry and its object; returns the object's path. The first of two writers wins."""
        parent = self._folder / key[:2]
        parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".new-", dir=parent))
        try:
            if built is not None:
                shutil.copyfile(built, temporary / _OBJECT)
            (temporary / _ENTRY).write_text(json.dumps(to_plain(entry)))
            temporary.chmod(0o755)
            with contextlib.suppress(OSError):  # another writer was first: its entry is as good
                temporary.rename(self._place(key))
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return self._place(key) / _OBJECT if built is not None else None

    def stats(self) -> CacheStats:
        """Count and size of the entries; walks the store."""
        places = self._places()
        size = sum(_size(file) for place in places for file in (place / _OBJECT, place / _ENTRY))
        hits, misses = (_size(self._folder / name) for name in (_HITS, _MISSES))
        return CacheStats(entries=len(places), size_bytes=size, hits=hits, misses=misses)

    def prune(self, max_bytes: int) -> int:
        """Remove the entries used longest ago until at most `max_bytes` remain; returns the bytes removed."""
        aged = []
        for place in self._places():
            with contextlib.suppress(FileNotFoundError):
                size = sum(file.stat().st_size for file in place.iterdir())
                aged.append(((place / _ENTRY).stat().st_mtime, size, place))
        aged.sort()
        excess = sum(size for _, size, _ in aged) - max_bytes
        removed = 0
        for _, size, place in aged:
            if removed >= excess:
                break
            self._remove(place)
            removed += size
        return removed

    def _remove(self, place: Path) -> None:
        """Out of sight by a rename, so that nobody finds half of it."""
        if not place.exists():
            return
        trash = Path(tempfile.mkdtemp(prefix=_TRASH, dir=place.parent))
        with contextlib.suppress(OSError):
            place.rename(trash / place.name)
        shutil.rmtree(trash, ignore_errors=True)

    def _place(self, key: str) -> Path:
        return self._folder / key[:2] / key

    def _places(self) -> list[Path]:
        return [place for place in self._folder.glob("??/*") if not place.name.startswith(".")]


def _size(path: Path) -> int:
    """Bytes; none where the file is gone, because another process may prune."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

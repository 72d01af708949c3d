"""Checks whether the filesystem of a folder does what a store needs of it: all in a subfolder that is deleted after."""

from __future__ import annotations

import errno
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from orchestrator.cli.checks import Check, State
from orchestrator.store.files import append_line, read_lines, write_atomic

_ROUNDS = 20
_SEEN_LIMIT_S = 30.0
_READER = """
import os, sys, time
path = sys.argv[1]
print("ready", flush=True)
seen = 0
while seen < int(sys.argv[2]):
    with open(path, "rb") as file:
        rows = file.read().splitlines()
    for row in rows[seen:]:
        print(time.time(), flush=True)
    seen = len(rows)
    time.sleep(0.001)
"""


def check_filesystem(folder: Path) -> list[Check]:
    """Hard links, exclusive creation, replacing, appending, and how soon another process sees what was appended."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".doctor-") as name:
        scratch = Path(name)
        checks = [_checked(title, check, scratch) for title, check in _CHECKS.items()]
    return checks


def _checked(title: str, check: Callable[[Path], Check], scratch: Path) -> Check:
    try:
        return check(scratch)
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "an error")
        return Check(name=title, state=State.MISSING, found=f"{code}: {error.strerror}", advice=_ELSEWHERE)


_ELSEWHERE = "keep the store (--out) on another filesystem"


def _links(scratch: Path) -> Check:
    """Of two links to one name the second must fail: a claim is nothing else."""
    source, other, name = scratch / "lease-1", scratch / "lease-2", scratch / "1.claim"
    source.write_text("1")
    other.write_text("2")
    took_s = []
    for number in range(_ROUNDS):
        began = time.perf_counter()
        os.link(source, scratch / f"link-{number}")
        took_s.append(time.perf_counter() - began)
    os.link(source, name)
    try:
        os.link(other, name)
    except FileExistsError:
        if name.samefile(source) and name.read_text() == "1":
            found = f"exclusive, {1e3 * statistics.median(took_s):.2f} ms each"
            return Check(name="links", state=State.OK, found=found)
    found = "a second link to one name succeeds, so two workers would run one cell"
    return Check(name="links", state=State.MISSING, found=found, advice=_ELSEWHERE)


def _exclusive(scratch: Path) -> Check:
    """O_EXCL."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    os.close(os.open(scratch / "exclusive", flags))
    try:
        os.close(os.open(scratch / "exclusive", flags))
    except FileExistsError:
        return Check(name="O_EXCL", state=State.OK, found="exclusive")
    return Check(name="O_EXCL", state=State.MISSING, found="not exclusive", advice=_ELSEWHERE)


def _rename(scratch: Path) -> Check:
    """A file that is replaced is never missing and never half there."""
    path = scratch / "replaced"
    took_s = []
    for number in range(_ROUNDS):
        began = time.perf_counter()
        write_atomic(path, f"{number}" * 1000)
        took_s.append(time.perf_counter() - began)
        if path.read_text() != f"{number}" * 1000:
            return Check(name="rename", state=State.MISSING, found="an old file is read back", advice=_ELSEWHERE)
    found = f"replaces whole files, {1e3 * statistics.median(took_s):.2f} ms each with fsync"
    return Check(name="rename", state=State.OK, found=found)


def _append(scratch: Path) -> Check:
    """How long after an append another process of this host reads it; between two hosts it may be longer."""
    path = scratch / "journal.jsonl"
    path.touch()
    command = [sys.executable, "-c", _READER, str(path), str(_ROUNDS)]
    written = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        for number in range(_ROUNDS):
            append_line(path, {"number": number})
            written.append(time.time())
            time.sleep(0.01)
        try:
            seen = [float(line) for line in reader.communicate(timeout=_SEEN_LIMIT_S)[0].split()]
        except subprocess.TimeoutExpired:
            reader.kill()
            found = f"another process does not see what was appended {_SEEN_LIMIT_S:.0f} s ago"
            return Check(name="append", state=State.MISSING, found=found, advice=_ELSEWHERE)
    if [row["number"] for row in read_lines(path)[0]] != list(range(_ROUNDS)):
        return Check(name="append", state=State.MISSING, found="lines are lost or torn", advice=_ELSEWHERE)
    delay_s = max(max(0.0, at - since) for at, since in zip(seen, written, strict=True))
    found = f"seen by another process of this host after {1e3 * delay_s:.1f} ms at most"
    if delay_s > 1.0:
        return Check(name="append", state=State.WEAK, found=found, advice="progress will be late; nothing is lost")
    return Check(name="append", state=State.OK, found=found)


_CHECKS = {"links": _links, "O_EXCL": _exclusive, "rename": _rename, "append": _append}

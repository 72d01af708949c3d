"""Places for compilers on this machine: as many as its cores and memory carry, given out in the order of asking."""

from __future__ import annotations

import fcntl
import os
import re
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

BYTES_EACH = 3 * 2**30
"""Memory that a compiler process may come to need: nvcc with torch's own headers takes 2.5 GiB."""
_POLL_S = 0.02


def places_here() -> int:
    """How many compilers this machine carries: one a core, and no more than its memory holds."""
    return max(1, min(len(os.sched_getaffinity(0)), _memory_bytes() // BYTES_EACH))


def _memory_bytes() -> int:
    """Of the machine, or of the control group that this process is in, as in a container or a Slurm job."""
    bounds = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    own = Path("/proc/self/cgroup")
    named = re.search(r"^0::/(.*)$", own.read_text(), re.MULTILINE) if own.exists() else None
    group = Path("/sys/fs/cgroup") / (named[1] if named else "")
    for folder in [group, *group.parents]:
        limit = folder / "memory.max"
        if limit.is_file() and (text := limit.read_text().strip()).isdigit():
            bounds.append(int(text))
    return min(bounds)


class Stopped(Exception):
    """The compile was given up by whoever asked for it."""


class Places:
    """Within a process first come, first served; all processes with the same folder share the places.

    Only the first in a process's row asks for a place of the machine, so that a process with many builds does not
    crowd out one with few. The kernel frees the place of a process that dies.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.count = count
        self._files = [folder / f"place-{number}" for number in range(count)]
        self._lock = threading.Lock()
        self._row: deque[threading.Event] = deque()

    @contextmanager
    def one(self, stop: threading.Event | None = None) -> Iterator[None]:
        """Wait for a place and hold it. Raises Stopped when `stop` is set before there is one."""
        stop = stop or threading.Event()
        with ExitStack() as held:
            with self._first_in_row(stop):
                while not any(self._taken(path, held) for path in self._files):
                    if stop.wait(_POLL_S):
                        raise Stopped
            yield

    @contextmanager
    def _first_in_row(self, stop: threading.Event) -> Iterator[None]:
        mine = threading.Event()
        with self._lock:
            self._row.append(mine)
            if self._row[0] is mine:
                mine.set()
        try:
            while not mine.wait(_POLL_S):
                if stop.is_set():
                    raise Stopped
            yield
        finally:
            with self._lock:
                self._row.remove(mine)
                if self._row:
                    self._row[0].set()

    @staticmethod
    def _taken(path: Path, held: ExitStack) -> bool:
        file = path.open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        held.callback(file.close)
        return True

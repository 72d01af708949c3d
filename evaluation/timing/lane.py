"""The right to measure: one judge at a time on each core set and each GPU of this machine, across processes."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from evaluation.errors import EvaluatorError
from evaluation.worker import processes

_POLL_S = 0.02
_UUID = re.compile(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIMED_NICE = -15
"""Priority of a judge and its workers while they measure, where the system permits it."""


def core_sets(threads: int) -> list[set[int]]:
    """The cores that this process may use, in disjoint sets of `threads`. Raises EvaluatorError if they are too few."""
    available = sorted(os.sched_getaffinity(0))
    if len(available) < threads:
        raise EvaluatorError(
            f"evaluation.cpu_threads={threads} but only {len(available)} cores may be used here; set it lower"
        )
    return [set(available[i : i + threads]) for i in range(0, len(available) - threads + 1, threads)]


@contextmanager
def held(threads: int) -> Iterator[set[int]]:
    """Wait for a lane of `threads` cores that no other judge holds.

    Meanwhile the calling thread, which must be the main thread, is kept on them, ahead of others' processes: ahead of
    those of other sessions too where this process leads its own, and would not take strangers along.
    """
    own = os.getpid()
    before, nice, leads = os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, own), os.getsid(0) == own
    folder = runtime_folder()
    with ExitStack() as stack:
        lanes = [(cores, stack.enter_context(_lock_file(folder, cores).open("a"))) for cores in core_sets(threads)]
        cores = _first_free(lanes)
        os.sched_setaffinity(0, cores)
        processes.set_nice(own, TIMED_NICE, group=leads)
        try:
            yield cores
        finally:
            processes.set_nice(own, nice, group=leads)
            os.sched_setaffinity(0, before)


@contextmanager
def device_held(uuid: str) -> Iterator[float]:
    """Wait until no other process or thread of this user holds the GPU `uuid`; gives the seconds that took.

    For work on the device alone: building, loading and comparing on the CPU need no right to it. Whoever holds it and
    asks again waits for ever. Raises EvaluatorError for a `uuid` that is none.
    """
    if not _UUID.fullmatch(uuid):
        raise EvaluatorError(f"{uuid!r} is no UUID of a GPU; they look like GPU-01234567-89ab-cdef-0123-456789abcdef")
    start = time.monotonic()
    with (runtime_folder() / f"lane-{uuid}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield time.monotonic() - start
        finally:
            # Closing alone would not do while a process that was forked meanwhile lives.
            fcntl.flock(lock, fcntl.LOCK_UN)


def _lock_file(folder: Path, cores: set[int]) -> Path:
    return folder / f"lane-cpu-{'-'.join(map(str, sorted(cores)))}.lock"


def _first_free(lanes: Sequence[tuple[set[int], TextIO]]) -> set[int]:
    while True:
        for cores, lock in lanes:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            return cores
        time.sleep(_POLL_S)


def runtime_folder() -> Path:
    """Private to this user and shared by all judges of this machine."""
    folder = Path(tempfile.gettempdir()) / f"kernelsweep-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.geteuid():
        raise EvaluatorError(f"{folder} belongs to another user; set TMPDIR to a folder of your own")
    return folder

"""Looking at, parking and killing the processes below one supervisor, from /proc."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from evaluation.errors import EvaluatorError

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_KILL_LIMIT_S = 60.0
"""A killed process must still be given a core to die on, which on a crowded machine takes seconds."""
_STOP_LIMIT_S = 5.0
_STARVED_LIMIT_S = 60.0
_LOOK_S = 20e-6
"""Between two looks at processes that were told to stop: the one who looks must leave the core that they stop on."""
_AT_REST = "TtZX"
"""States in /proc of a process that does nothing: stopped, traced, a zombie, gone."""


class Unstoppable(Exception):
    """Processes evade being stopped; the text says how long."""


def descendants(pid: int) -> list[int]:
    """Every process below `pid`, parents before children."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                children += map(int, (task / "children").read_text().split())
    return children


def open_memory(pid: int) -> int:
    """A descriptor to read the memory of a process below this one, whatever that does later, until it runs exec."""
    try:
        return os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError as error:
        raise EvaluatorError(
            "the memory of a process started here may not be read, which the judge needs; allow it, as with "
            "sysctl kernel.yama.ptrace_scope=1"
        ) from error


def stop_all(find: Callable[[], list[int]]) -> list[int]:
    """Stop what `find` finds, until it finds nothing that still runs; returns the stopped.

    One that makes a process and ends can slip away under a look. Raises Unstoppable when some do so for long; the time
    in which a crowded machine gives none of them a core, so that they cannot stop, is not held against them.
    """
    began = last = time.monotonic()
    went_on_s, ran_ns = 0.0, dict[int, int]()
    while True:
        found = find()
        running = [pid for pid in found if _state(pid) not in _AT_REST]
        if not running:
            return found
        now, before = time.monotonic(), ran_ns
        ran_ns = {pid: _ran_ns(pid) for pid in running}
        if any(before.get(pid) != ran for pid, ran in ran_ns.items()):
            went_on_s += now - last
        last = now
        if went_on_s > _STOP_LIMIT_S or now - began > _STARVED_LIMIT_S:
            raise Unstoppable(f"{len(running)} of its processes went on for {_STOP_LIMIT_S:.0f} s when told to stop")
        signal_all(running, signal.SIGSTOP)
        time.sleep(_LOOK_S)


def _ran_ns(pid: int) -> int:
    """Nanoseconds for which the main thread has had a core. Where the kernel does not say, always another number."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return time.monotonic_ns()


def _state(pid: int) -> str:
    """`R`, `S`, `T`, `Z`, ...; `X` if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def pin_all(pids: Iterable[int], cores: set[int]) -> None:
    """Keep every thread of the processes on `cores`."""
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), cores)


def set_nice(pid: int, nice: int, *, group: bool = True) -> None:
    """Set the priority of a process's main thread and of its session's scheduling `group`, where the system permits it.

    Without permission nothing is changed: a measurement is then disturbed more, and its interval shows that.
    """
    with suppress(PermissionError, ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, pid, nice)
    if not group:
        return
    # The kernel refuses with EINVAL a process that stands in no session's group, EAGAIN too many changes in a row.
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))


def count_tasks(pids: Iterable[int]) -> int:
    """Processes and their threads."""
    total = 0
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            total += sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    return total


def exceeds_memory(pids: list[int], limit_bytes: int) -> bool:
    """Whether the processes together hold more than `limit_bytes` in memory, shared pages counted once.

    The kernel sums shared pages slowly, so that is asked only when the quick sum, which counts them often, is above.
    """
    if sum(map(_resident_bytes, pids)) <= limit_bytes:
        return False
    return sum(map(_proportional_bytes, pids)) > limit_bytes


def _resident_bytes(pid: int) -> int:
    with suppress(FileNotFoundError, ProcessLookupError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    return 0


def _proportional_bytes(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except PermissionError:
        # A candidate may forbid this look at itself; then it gets the larger figure.
        return _resident_bytes(pid)
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


def signal_all(pids: Iterable[int], number: int) -> None:
    """Send a signal to each process that is still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_tree(supervisor: int, supervisor_handle: int) -> None:
    """End the supervisor and everything below it; returns when nothing is left.

    `supervisor_handle` is its pidfd, so that a pid used again is never hit. Raises EvaluatorError if something stays.
    """
    deadline = time.monotonic() + _KILL_LIMIT_S
    while below := descendants(supervisor) if _alive(supervisor_handle) else []:
        signal_all(below, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise EvaluatorError(f"processes {below[:5]} of a candidate survived SIGKILL for {_KILL_LIMIT_S:.0f} s")
        time.sleep(0.001)
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(supervisor_handle, signal.SIGKILL)
    ended = select.poll()
    ended.register(supervisor_handle, select.POLLIN)
    if not ended.poll(_KILL_LIMIT_S * 1000):
        raise EvaluatorError(f"the supervisor of a candidate survived SIGKILL for {_KILL_LIMIT_S:.0f} s")


def _alive(handle: int) -> bool:
    try:
        signal.pidfd_send_signal(handle, 0)
    except ProcessLookupError:
        return False
    return True

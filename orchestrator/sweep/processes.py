"""How processes of one sweep live and die together."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_PR_SET_PDEATHSIG = 1

EXIT_INTERRUPTED = 143
"""Exit code of a process that SIGTERM has stopped: 128 + 15, as a shell would say it."""


def die_with(parent_pid: int) -> None:
    """Have the kernel kill this process when `parent_pid`, which started it, ends in any way."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl(PR_SET_PDEATHSIG): {os.strerror(number)}")
    if os.getppid() != parent_pid:  # it ended before the call above
        sys.exit(EXIT_INTERRUPTED)


@contextmanager
def sigterm_exits() -> Iterator[None]:
    """Turn SIGTERM into SystemExit while this is open, so that `finally` and `with` let go of what is held."""

    def stop(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(EXIT_INTERRUPTED)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

"""Counts the steps by which a process changes the disk, and ends or stops it just before the n-th of them.

It stands in front of the operating system's functions, so that the program under test knows nothing of it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

STEPS = ("fsync", "link", "rename", "replace")


def at_step(number: int | None, do: Callable[[], None]) -> list[str]:
    """Call `do` before step `number` (1 is the first) of this process; returns the list into which all steps are noted.

    What was done before the step is on the disk, it and all after it are not.
    """
    seen: list[str] = []

    def noted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            seen.append(name)
            if len(seen) == number:
                do()
            return real(*arguments, **named)

        return step

    for name in STEPS:
        setattr(os, name, noted(name, getattr(os, name)))
    return seen


def kill_self() -> None:
    """As a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


def stop_self() -> None:
    """As a frozen node: it goes on when it gets SIGCONT."""
    os.kill(os.getpid(), signal.SIGSTOP)

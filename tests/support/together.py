"""Processes that begin at the same moment, however long each took to start."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence


def together(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A process of Python that says a line when it has imported all, and then waits for a line with its end."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def begin(processes: Sequence[subprocess.Popen[bytes]], seconds: float) -> float:
    """When all are ready, let them go on for so long; returns when they end, as Unix time."""
    for process in processes:
        assert process.stdout is not None
        with process.stdout:
            assert process.stdout.readline() == b"ready\n"
    until = time.time() + seconds
    for process in processes:
        assert process.stdin is not None
        with process.stdin:
            process.stdin.write(f"{until}\n".encode())
    return until

"""The judge's side of ncu: a worker that runs under it, and the counters of one of its calls."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import evaluation
from evaluation.errors import EvaluatorError
from evaluation.profile import metrics, ncu
from evaluation.sandbox.sandbox import clean_environment
from evaluation.settings import LimitSettings
from evaluation.timing import lane
from evaluation.worker import processes
from evaluation.worker.handle import Worker
from evaluation.worker.monitor import Monitor, Pipes

_CONNECT_LIMIT_S = 60.0
_WRITE_LIMIT_S = 60.0
_OWN_PROCESSES = 64
"""Processes and threads that ncu itself may have, beside the candidate's."""

Begin = Callable[[Path], "Counting"]


class Counting:
    """ncu, and the worker in it. Starting takes seconds, in which other things may be done."""

    def __init__(self, program: Path, harness: Path, limits: LimitSettings, threads: int) -> None:
        """Start `program`, an ncu. Raises NcuError if it cannot be started."""
        self.program = program
        self._limits = replace(limits, processes=limits.processes + _OWN_PROCESSES)
        with ExitStack() as held:
            name = held.enter_context(tempfile.TemporaryDirectory(prefix="ncu-", dir=lane.runtime_folder()))
            self._home, self._log = Path(name, "home"), Path(name, "log.csv")
            self._home.mkdir()
            self._listener = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            self._listener.bind(f"{name}/socket")
            self._listener.listen(1)
            target = [
                sys.executable,
                "-m",
                "evaluation.profile.target",
                f"{name}/socket",
                str(self._home),
                str(harness),
            ]
            order = ncu.command(program, self._log, metrics.asked(), target)
            self._process, self._output_fd = _started(order, name, threads)
            held.callback(self._process.wait)
            held.callback(_end, self._process)
            self._held = held.pop_all()

    def close(self) -> None:
        """End it and whatever runs in it."""
        self._held.close()

    def worker(self) -> Worker:
        """One that is ready to load a candidate; to be asked once. Raises NcuError if it does not come."""
        try:
            self._socket = _accepted(self._listener, self._process)
        except ncu.NcuError as error:
            os.close(self._output_fd)
            raise self._first_reason(error) from error
        try:
            monitor = _monitor(self._process.pid, self._output_fd, self._limits)
            worker = Worker(self._socket, monitor, self._home, self._limits, None)
        except EvaluatorError as error:
            raise ncu.NcuError(f"the worker under ncu did not start: {error}") from error
        self._held.callback(worker.close)
        return worker

    def kernels(self, worker: Worker) -> list[ncu.Kernel]:
        """What the worker's one call ran; ends it. Raises NcuError where there are no counters."""
        worker.resume()
        self._socket.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(_WRITE_LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise ncu.NcuError(f"ncu did not end within {_WRITE_LIMIT_S:.0f} s after the call") from error
        if not self._log.exists():
            raise ncu.NcuError(f"ncu ended with code {self._process.returncode} and wrote nothing")
        return ncu.parse(self._log.read_text(errors="replace"))

    def _first_reason(self, otherwise: ncu.NcuError) -> ncu.NcuError:
        """What ncu wrote of it, where it did."""
        if not self._log.exists():
            return otherwise
        try:
            ncu.parse(self._log.read_text(errors="replace"))
        except ncu.NcuError as error:
            return error
        return otherwise


class Ready:
    """One Counting that was begun before it is asked for: most of its start is the import of torch."""

    def __init__(self, begin: Begin) -> None:
        """`begin` starts one with the ncu at a path, or raises NcuError."""
        self._begin = begin
        self._counting: Counting | None = None

    def refill(self) -> None:
        """Begin one unless there is one. What hinders it is said when it is taken."""
        if self._counting is None:
            with suppress(ncu.NcuError):
                self._counting = self._begin(ncu.find())

    def take(self) -> Counting:
        """The one that is ready, else a new one; the caller closes it. Raises NcuError where there can be none."""
        program = ncu.find()
        if self._counting is not None and self._counting.program != program:
            self.close()
        counting, self._counting = self._counting, None
        return counting or self._begin(program)

    def close(self) -> None:
        """End the one that nobody took."""
        if self._counting is not None:
            self._counting.close()
            self._counting = None


def _started(order: list[str], folder: str, threads: int) -> tuple[subprocess.Popen[bytes], int]:
    """The process, and where to read what it prints."""
    read_fd, write_fd = os.pipe()
    try:
        process = subprocess.Popen(
            order,
            env=clean_environment(threads, folder),
            cwd=Path(evaluation.__file__).parents[1],
            stdin=subprocess.DEVNULL,
            stdout=write_fd,
            stderr=write_fd,
            start_new_session=True,
        )
    except OSError as error:
        os.close(read_fd)
        raise ncu.NcuError(f"ncu cannot be started: {error}") from error
    finally:
        os.close(write_fd)
    return process, read_fd


def _accepted(listener: socket.socket, process: subprocess.Popen[bytes]) -> socket.socket:
    listener.settimeout(0.05)
    deadline = time.monotonic() + _CONNECT_LIMIT_S
    while time.monotonic() < deadline:
        try:
            return listener.accept()[0]
        except TimeoutError:
            if process.poll() is not None:
                raise ncu.NcuError(f"ncu ended with code {process.returncode} before it ran anything") from None
    raise ncu.NcuError(f"ncu ran nothing within {_CONNECT_LIMIT_S:.0f} s")


def _monitor(supervisor: int, output_fd: int, limits: LimitSettings) -> Monitor:
    """ncu stands where a worker's supervisor does; it does not say how the candidate's process ended."""
    status_read, status_write = os.pipe()
    os.close(status_write)
    return Monitor(supervisor, Pipes(output_fd, status_read), limits, first_process=False)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of it and of what it started."""
    if process.poll() is None:
        processes.signal_all(processes.descendants(process.pid), signal.SIGKILL)
        process.kill()

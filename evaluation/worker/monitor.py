"""Watches one worker from the judge: what it prints, how much it holds, when it ends. Kills it at its limits."""

from __future__ import annotations

import os
import select
import struct
import threading
import time
from dataclasses import dataclass

from evaluation.errors import EvaluatorError
from evaluation.settings import LimitSettings
from evaluation.verdict import Fault
from evaluation.worker import processes

_LOOK_EVERY_S = 0.05
_LOG_TAIL_BYTES = 16_384
_READ_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Pipes:
    """The judge's ends of what the candidate prints to, and of what its supervisor reports its end to."""

    output_fd: int
    status_fd: int


class Monitor(threading.Thread):
    """One thread per worker; it ends when all of the worker's processes have.

    `fault` is the limit that was passed, if any; `wait_status` is how the candidate's process ended by itself.
    """

    def __init__(self, supervisor: int, pipes: Pipes, limits: LimitSettings, *, first_process: bool) -> None:
        """Takes ownership of the pipe ends.

        `first_process`: the supervisor's one child is the first process of a namespace, and not the candidate.
        """
        super().__init__(name=f"monitor-{supervisor}", daemon=True)
        self.fault: Fault | None = None
        self.wait_status: int | None = None
        self.error: Exception | None = None
        self._supervisor = supervisor
        self._handle = os.pidfd_open(supervisor)
        self._first_process = first_process
        self._output_fd = pipes.output_fd
        self._status_fd = pipes.status_fd
        self._limits = limits
        self._printed_bytes = 0
        self._tail = b""

    @property
    def knows_the_end(self) -> bool:
        """Whether it is known why the candidate ended."""
        return self.wait_status is not None or self.fault is not None

    @property
    def log(self) -> str:
        """The tail of what the candidate printed."""
        return self._tail.decode(errors="replace")

    def below(self) -> list[int]:
        """The pids of the candidate's processes, parents first."""
        found = processes.descendants(self._supervisor)
        return found[1:] if self._first_process else found

    def kill(self) -> None:
        """End the worker, its whole tree; returns when it is gone."""
        processes.kill_tree(self._supervisor, self._handle)

    def run(self) -> None:
        """Look every 50 ms until every holder of the pipes is gone. What fails here is kept in `error`."""
        try:
            self._watch()
        except (OSError, EvaluatorError) as error:
            self.error = error
            self.kill()

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self._output_fd, select.POLLIN)
        poll.register(self._status_fd, select.POLLIN)
        next_look = 0.0
        open_fds = {self._output_fd, self._status_fd}
        while open_fds:
            for descriptor, _ in poll.poll(_LOOK_EVERY_S * 1000):
                data = os.read(descriptor, _READ_BYTES)
                if not data:
                    poll.unregister(descriptor)
                    open_fds.remove(descriptor)
                elif descriptor == self._output_fd:
                    self._take_output(data)
                else:
                    (self.wait_status,) = struct.unpack("<i", data)
                    self.kill()
            if time.monotonic() >= next_look:
                self._look()
                next_look = time.monotonic() + _LOOK_EVERY_S

    def close(self) -> None:
        """Kill what is left and give everything back."""
        self.kill()
        self.join()
        for descriptor in (self._output_fd, self._status_fd, self._handle):
            os.close(descriptor)

    def _take_output(self, data: bytes) -> None:
        self._printed_bytes += len(data)
        self._tail = (self._tail + data)[-_LOG_TAIL_BYTES:]
        if self._printed_bytes > self._limits.output_bytes:
            self._end(Fault.OUTPUT_LIMIT)

    def _look(self) -> None:
        below = self.below()
        if processes.count_tasks(below) > self._limits.processes:
            self._end(Fault.PROCESS_LIMIT)
        elif processes.exceeds_memory(below, self._limits.memory_bytes):
            self._end(Fault.MEMORY_LIMIT)

    def _end(self, fault: Fault) -> None:
        if self.fault is None:
            self.fault = fault
        self.kill()

"""Worker processes on this machine."""

from __future__ import annotations

import logging
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.store.job import Job, worker_command

log = logging.getLogger(__name__)

POLL_S = 0.1
STOP_S = 25.0
"""Seconds that workers get to drain after SIGTERM. SLURM kills 30 seconds after its own, unless a site says less."""
FUTILE_STARTS = 3
"""Deaths in a row, without having taken up a cell, after which a worker is not started again."""
_TAIL_BYTES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One worker's place."""

    name: str
    """Of the worker, its journal and its log."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Added to its environment."""


class LocalLauncher:
    """N workers that claim cells. One that crashes is started again, as long as it takes up cells."""

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise ValueError(f"launcher.workers is {workers}; it takes at least 1")
        self._workers = workers

    def launch(self, job: Job) -> None:
        """Start the workers and wait for all of them; on any exception stop them first."""
        work(job, [Seat(name=str(number)) for number in range(self._workers)])


def work(job: Job, seats: Sequence[Seat]) -> bool:
    """Keep a worker in every seat until nothing is left to do; on any exception, SystemExit included, drain them first.

    False when one was given up because it kept ending with nothing done.
    """
    slots = [_Slot(job, seat) for seat in seats]
    try:
        for slot in slots:
            slot.start()
        while any([slot.tend() for slot in slots]):
            time.sleep(POLL_S)
    finally:
        _stop(slots)
    return not any(slot.given_up for slot in slots)


class _Slot:
    """A seat and who sits there. Workers that it starts follow one another, so they share a journal and a log."""

    def __init__(self, job: Job, seat: Seat) -> None:
        self._job = job
        self._seat = seat
        self._journal_bytes = 0
        self._futile = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def given_up(self) -> bool:
        return self._futile >= FUTILE_STARTS

    def start(self) -> None:
        self._job.workers_dir.mkdir(parents=True, exist_ok=True)
        command, variables = worker_command(self._job, self._seat.name)
        command += ["--parent", str(os.getpid())]
        environment = {**os.environ, **variables, **self._seat.variables}
        self._journal_bytes = _size(self._path("jsonl"))
        with self._path("log").open("ab") as output:
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def tend(self) -> bool:
        """Whether the worker is at work; one that crashed is started again."""
        if self.process is None:
            return False
        code = self.process.poll()
        if code is None:
            return True
        self.process = None
        if code == 0:
            return False
        name, path = self._seat.name, self._path("log")
        self._futile = self._futile + 1 if _size(self._path("jsonl")) == self._journal_bytes else 0
        if self.given_up:
            log.error(
                "worker %s ended %d times with nothing done; see %s, which ends:\n%s",
                name, self._futile, path, tail(path)
            )  # fmt: skip
            return False
        log.warning("worker %s ended with code %d and is started again; see %s", name, code, path)
        self.start()
        return True

    def _path(self, suffix: str) -> Path:
        return self._job.workers_dir / f"{self._seat.name}.{suffix}"


def tail(path: Path, lines: int = 5) -> str:
    """The last lines of a log that may be large; nothing when there is no such file."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, _size(path) - _TAIL_BYTES))
        text = file.read().decode("utf-8", errors="replace")
    return "\n".join(text.splitlines()[-lines:])


def _stop(slots: Sequence[_Slot]) -> None:
    running = [slot.process for slot in slots if slot.process is not None]
    for process in running:
        process.terminate()
    deadline = time.monotonic() + STOP_S
    for process in running:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0

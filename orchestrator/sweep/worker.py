"""A process that works through the pending cells of a job, many agent loops at once, until nothing is left for it.

`python -m orchestrator.sweep.worker --root DIR --job ID --id NAME [--parent PID] [--until UNIX_S]`

SIGTERM, SIGUSR1, SIGUSR2 and the approach of `--until` drain it: no new cell is taken, turns that end within DRAIN_S
are journaled, the claims are freed, and the exit code is 0.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from orchestrator.limits.limits import Limits
from orchestrator.store.control import Control
from orchestrator.store.job import Job, read_job
from orchestrator.store.leases import Lease, Load, Watch
from orchestrator.store.store import Store
from orchestrator.sweep.attempt import Attempts
from orchestrator.sweep.crew import Growth, judges_limit
from orchestrator.sweep.judges import Judges
from orchestrator.sweep.parking import Restraint
from orchestrator.sweep.processes import die_with
from orchestrator.sweep.queue import Queue

log = logging.getLogger(__name__)

DRAIN_S = 8.0
"""Seconds that a turn gets to end once the worker is asked to stop; what takes longer is given up."""
UNTIL_GRACE_S = 60.0
"""Seconds before `--until` at which the worker begins to drain."""
PAUSE_WAIT_S = 600.0
"""Seconds that a worker waits for the end of a pause before it leaves."""
_POLL_S = 0.1
_LOOK_S = 1.0
"""Seconds between two looks for files of control: thousands of workers ask one file server."""
_IDLE_S = 0.5
_DRAIN_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


class Worker:
    """One lease, a few judges, and loops in threads that take cells from one queue."""

    def __init__(
        self,
        job: Job,
        name: str,
        *,
        until: float | None = None,
        only: str | None = None,
        limits: Restraint | None = None,
    ) -> None:
        self._job = job
        self._until = until
        store = Store(Path(job.root))
        self._control = Control(store)
        self._lease = Lease(store.leases_dir, job.id, name, job.lease_s)
        self._judges = Judges(Path(job.cache_dir), job.workers_dir / f"{name}.judge.log", judges_limit(job.judges))
        self._queue = Queue(job, self._lease, Watch(), only)
        self._stopping = threading.Event()
        own = Limits(store.root, job.limits, f"{job.id}-{name}", self._stopping)
        self._own_limits: AbstractContextManager[object] = own if limits is None else nullcontext()
        self._limits: Restraint = own if limits is None else limits
        self._attempts = Attempts(job, name, self._lease.id, self._judges, self._limits)
        self._growth = Growth(1 if only is not None else job.agents, self._judges)
        self._only = only
        self._loops: list[threading.Thread] = []
        self._asked_to_stop = ""
        """Why; set by signal handlers, which must take no lock."""
        self._paused_since: float | None = None
        self._look_at = 0.0
        self._faults: list[Exception] = []

    def stop(self, reason: str) -> None:
        """Have `run` drain and return; may be called from a signal handler."""
        self._asked_to_stop = self._asked_to_stop or reason

    @property
    def drained(self) -> bool:
        """Whether loops were left behind that still hang in a request or a build; the process should then end."""
        return any(loop.is_alive() for loop in self._loops)

    def run(self) -> None:
        """Work until every cell of the job is finished, in another live process's hands, or given up for this job."""
        self._attempts.wake_up(self._queue.first)
        self._lease.load = self._load
        with self._lease, self._judges, self._own_limits:
            try:
                self._supervise()
            finally:
                self._drain()
        if self._faults:
            raise self._faults[0]

    def _load(self) -> Load:
        return Load(
            loops=len(self._loops),
            loops_at_work=self._attempts.at_work,
            judges=self._judges.running,
            judges_at_work=self._judges.at_work,
        )

    def _supervise(self) -> None:
        while not (reason := self._reason_to_stop()):
            self._man()
            if not any(loop.is_alive() for loop in self._loops):
                return
            time.sleep(_POLL_S)
        log.info("draining: %s", reason)

    def _reason_to_stop(self) -> str:
        """Why the worker is to drain; nothing while it is to go on."""
        if self._asked_to_stop:
            return self._asked_to_stop
        if self._until is not None and time.time() > self._until - UNTIL_GRACE_S:
            return "the time is nearly over"
        if self._attempts.spent:
            return "the experiment's budget is spent"
        if time.monotonic() < self._look_at:
            return ""
        self._look_at = time.monotonic() + _LOOK_S
        if self._job.cancelled_path.exists():
            return "the job was cancelled"
        pause = self._control.paused()
        if pause is None or self._attempts.at_work:
            self._paused_since = None
            return ""
        self._paused_since = self._paused_since or time.monotonic()
        return f"paused: {pause.reason}" if time.monotonic() - self._paused_since > PAUSE_WAIT_S else ""

    def _man(self) -> None:
        """Have as many loops as are worth having."""
        while len(self._loops) < self._growth.wanted(len(self._loops), self._attempts.at_work):
            loop = threading.Thread(target=self._loop, name=f"loop-{len(self._loops)}", daemon=True)
            self._loops.append(loop)
            loop.start()

    def _loop(self) -> None:
        try:
            while not self._stopping.is_set():
                free = self._control.paused() is None and self._limits.breaker.may_take()
                ticket = self._queue.next() if free else None
                if ticket is not None:
                    self._queue.give_back(ticket.cell.uid, self._attempts.run(ticket))
                if self._only is not None or (free and ticket is None and self._queue.over):
                    return
                if ticket is None:
                    self._stopping.wait(_IDLE_S)
        except Exception as fault:
            # A loop that cannot go on (the store is away, the disk is full) ends the worker, which says so.
            log.exception("a loop cannot go on")
            self._faults.append(fault)
            self.stop(f"{type(fault).__name__}: {fault}")

    def _drain(self) -> None:
        self._stopping.set()
        self._attempts.stop()
        deadline = time.monotonic() + DRAIN_S
        for loop in self._loops:
            loop.join(max(0.0, deadline - time.monotonic()))
        self._attempts.abandon()


def main(argv: list[str] | None = None) -> None:
    """Run one worker."""
    parser = argparse.ArgumentParser(prog="python -m orchestrator.sweep.worker", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="the store's folder")
    parser.add_argument("--job", required=True, help="id of the launch")
    parser.add_argument("--id", required=True, help="name of this worker, which no other one of the job has")
    parser.add_argument("--parent", type=int, help="process that started it and with which it ends")
    parser.add_argument("--until", type=float, metavar="UNIX_S", help="when the allocation ends")
    parser.add_argument("--only", metavar="UID", help="run this cell and no other")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    if arguments.parent is not None:
        die_with(arguments.parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C reaches the coordinator, which sends SIGTERM
    job = read_job(Store(arguments.root), arguments.job)
    worker = Worker(job, arguments.id, until=arguments.until, only=arguments.only)
    for number in _DRAIN_SIGNALS:
        signal.signal(number, lambda got, _: worker.stop(signal.Signals(got).name))
    log.info("worker %s of job %s, process %d", arguments.id, arguments.job, os.getpid())
    worker.run()
    if worker.drained:
        logging.shutdown()
        sys.stderr.flush()
        os._exit(0)  # without waiting for requests that hang; the judges end when their pipes close


if __name__ == "__main__":
    main()

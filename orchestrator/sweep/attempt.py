"""One attempt at one cell: the agent, the grade, the commit; and, however it ends, a word about it for the next one."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agents.errors import Draining, ExperimentSpent, ProviderError
from agents.models.litellm_client import client
from agents.settings import ModelKind
from agents.trajectory import Trajectory
from evaluation.device.presence import require
from orchestrator.cell import Cell
from orchestrator.settings import CellSettings, settings_of
from orchestrator.store.claims import Claim, Outcome, history
from orchestrator.store.control import Control, Pauser
from orchestrator.store.files import append_line, write_atomic
from orchestrator.store.job import Job, worker_command
from orchestrator.store.journal import read_events
from orchestrator.store.store import Store
from orchestrator.sweep.judges import Judges
from orchestrator.sweep.parking import Restraint
from orchestrator.sweep.queue import Ticket, deaths_borne, deaths_here, since_release
from orchestrator.sweep.runner import publish, run_cell

log = logging.getLogger(__name__)

_POLL_S = 0.1


class Drained(Exception):
    """The worker is asked to stop, and the cell is at a point where it can."""


class Overtaken(Exception):
    """This process was taken for dead, and another one has the cell."""


@dataclass(slots=True)
class _Open:
    claim: Claim
    uid: str
    trajectory: Trajectory | None = None


class Attempts:
    """The attempts of one worker's loops. Its journal in the job's folder says what was taken up and what came."""

    def __init__(self, job: Job, name: str, writer: str, judges: Judges, limits: Restraint) -> None:
        self._job = job
        self._name = name
        self._writer = writer
        self._store = Store(Path(job.root))
        self._judges = judges
        self._limits = limits
        self._lock = threading.Lock()
        """Guards what follows."""
        self._open: dict[int, _Open] = {}
        """By the loop's thread."""
        self._stopping = threading.Event()
        self.at_work = 0
        self.spent = False
        """Whether the experiment's money is out."""

    def wake_up(self, first: Cell) -> None:
        """Import what a cell like this needs, before one is claimed: a process that is killed meanwhile holds none.

        Raises DeviceAbsent on a machine that cannot judge it: there the cells would only use up their attempts.
        """
        settings = settings_of(first)
        require([settings.evaluation.device])
        if settings.model.kind is ModelKind.litellm:
            client()

    def run(self, ticket: Ticket) -> float | None:
        """Run the cell; returns the seconds after which it is to be looked at again, None if it is done with."""
        with self._lock:
            self.at_work += 1
        try:
            return self._run_apart(ticket.cell) if ticket.claim is None else self._run_here(ticket, ticket.claim)
        finally:
            with self._lock:
                self.at_work -= 1

    def stop(self) -> None:
        """Have every attempt end before its next request, tool call or evaluation."""
        self._stopping.set()

    def abandon(self) -> None:
        """Free the claims of the attempts that still hang somewhere. What they bring after this is refused."""
        with self._lock:
            left, self._open = self._open, {}
        for one in left.values():
            if one.trajectory is not None:
                one.trajectory.close()  # first, so that nothing is written beside the next holder
            one.claim.end(Outcome.INTERRUPTED)
            self._note(Outcome.INTERRUPTED, one.uid, one.claim)

    def _run_here(self, ticket: Ticket, claim: Claim) -> float | None:
        cell, wait_s, cause = ticket.cell, None, ""
        with self._lock:
            self._open[threading.get_ident()] = _Open(claim, cell.uid)
        self._note("start", cell.uid, claim)
        outcome = Outcome.INTERRUPTED
        try:
            outcome = self._finish(cell, claim)
        except (Drained, Draining):
            pass
        except Overtaken:
            outcome = Outcome.SUPERSEDED
        except ExperimentSpent as error:
            Control(self._store).pause(str(error), Pauser.SPENT)
            self.spent = True
        except ProviderError as error:
            cause = str(error)
            outcome = Outcome.PARKED if error.cause.passing else Outcome.FAILED
            wait_s = self._limits.breaker.failed(error, ticket.parked_before) if error.cause.passing else 0.0
        except Exception as error:
            # Whatever it is, it is ours: the cell stays owed and the other cells go on.
            log.exception("cell %s, attempt %d", cell.uid, claim.number)
            outcome, wait_s, cause = Outcome.FAILED, 0.0, f"{type(error).__name__}: {error}"
        self._let_go(claim, cell, outcome, cause, wait_s)
        return wait_s

    def _let_go(self, claim: Claim, cell: Cell, outcome: Outcome, cause: str, wait_s: float | None) -> None:
        with self._lock:
            known = self._open.pop(threading.get_ident(), None)
        if known is None:
            return  # abandoned, which was said
        if known.trajectory is not None:
            known.trajectory.close()
        if outcome is not Outcome.DONE:
            not_before = time.time() + wait_s if outcome is Outcome.PARKED and wait_s is not None else None
            claim.end(outcome, cause, not_before)
        self._note(outcome, cell.uid, claim, cause)

    def _finish(self, cell: Cell, claim: Claim) -> Outcome:
        self._limits.check()
        self._store.write_cell(cell)
        settings = settings_of(cell)
        trajectory = self._open_trajectory(cell, claim, settings)
        judge = self._judges.of(settings.evaluation)
        record = run_cell(
            cell, claim, self._limits, experiment=self._store.name, trajectory=trajectory, evaluator=judge
        )
        if not self._store.commit(record, claim.valid):
            return Outcome.SUPERSEDED
        if record.turns:  # others have asked no provider
            self._limits.breaker.answered()
        publish(self._store, record, self._writer)
        return Outcome.DONE

    def _open_trajectory(self, cell: Cell, claim: Claim, settings: CellSettings) -> Trajectory:
        path = self._store.trajectory_path(cell.uid)

        def checkpoint() -> None:
            if self._stopping.is_set():
                raise Drained
            if not claim.valid():
                raise Overtaken
            if settings.model.kind is ModelKind.litellm:
                # While the model thinks; other models answer at once. Not sooner: its library is imported by now.
                self._judges.warm_up(settings.evaluation)

        if claim.number > 1 and path.exists():
            # An earlier holder may wake up and write on: into the file that it has open, which is this one no longer.
            content = path.read_bytes()
            checkpoint()
            write_atomic(path, content)
        trajectory = Trajectory(path, checkpoint)
        with self._lock:
            mine = self._open.get(threading.get_ident())
            if mine is not None:
                mine.trajectory = trajectory
                return trajectory
        trajectory.close()
        raise Drained

    def _run_apart(self, cell: Cell) -> float | None:
        """Run a cell over which processes died in one of its own: if that one dies too, the cell is the cause."""
        command, variables = worker_command(self._job, f"{self._name}-apart-{cell.uid[-12:]}")
        command += ["--parent", str(os.getpid()), "--only", cell.uid]
        with (self._job.workers_dir / f"{self._name}.apart.log").open("ab") as output:
            child = subprocess.Popen(
                command, env=os.environ | variables, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        asked = False
        while True:
            with suppress(subprocess.TimeoutExpired):
                code = child.wait(_POLL_S)
                break
            if self._stopping.is_set() and not asked:
                child.terminate()
                asked = True
        claims = since_release(history(self._store.attempts_dir(cell.uid)))
        last = claims[-1]
        its_end = last.holder.pid == child.pid and last.ended is None and not self._store.is_done(cell.uid)
        events = read_events(self._store.trajectory_path(cell.uid))
        if code and its_end and not asked and deaths_here(claims, events) > deaths_borne(events):
            name = signal.Signals(-code).name if code < 0 else f"code {code}"
            cause = f"the process that ran it alone ended with {name}; see {output.name}"
            last.end(Outcome.QUARANTINED, cause)
            self._note(Outcome.QUARANTINED, cell.uid, last, cause)
            return None
        return 1.0

    def _note(self, event: str, uid: str, claim: Claim, cause: str = "") -> None:
        row = {"t": time.time(), "event": event.lower(), "uid": uid, "attempt": claim.number, "cause": cause}
        append_line(self._job.workers_dir / f"{self._name}.jsonl", row)

"""Which cell a worker takes next: the plan's order, others' cells left alone, what failed or waits comes last."""

from __future__ import annotations

import heapq
import random
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.cell import Cell
from orchestrator.store.claims import Claim, Outcome, history, take
from orchestrator.store.control import Control
from orchestrator.store.index import finished_uids
from orchestrator.store.job import Job, PlannedCells
from orchestrator.store.journal import Event, read_events
from orchestrator.store.leases import Lease, Liveness, Watch
from orchestrator.store.store import Store

HELD_S = 1.0
"""Seconds until a cell that another process holds is looked at again."""
DEATHS_APART = 2
"""Processes that died at one place of a cell's journal, after which it is run in a process of its own. Where workers
are killed every now and then, cells die often but get further each time."""
DEATHS_WAITING = 6
"""The same where the journal ends with a request: the process did nothing for the cell but wait."""
_SPREAD = 32
"""How far ahead a worker looks after it was beaten to a cell, so that many workers do not all try the same next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A cell that is this process's to run; without a claim it is to be run in a process of its own."""

    cell: Cell
    claim: Claim | None
    parked_before: int = 0
    """How often in a row it was put aside for the provider's sake."""


class Queue:
    """The cells of a job that this process may still get to run. May be used by several threads.

    A cell is fresh, or waits for a time, or is out: done, given up for this job, or handed out.
    """

    def __init__(self, job: Job, lease: Lease, watch: Watch, only: str | None = None) -> None:
        self._job = job
        self._store = Store(Path(job.root))
        self._control = Control(self._store)
        self._lease = lease
        self._watch = watch
        self._may_run_apart = only is None
        self._apart: str | None = None
        """The cell that runs in a process of its own now: one at a time, as it has its own judge."""
        self._plan = PlannedCells(job)
        self._lock = threading.Lock()
        finished = finished_uids(self._store.index_dir)  # who comes late need not look at each
        self._fresh = deque([uid for uid in self._plan.uids if uid not in finished] if only is None else [only])
        self._later: list[tuple[float, int, str]] = []
        """Due (monotonic seconds), a running number, uid."""
        self._number = 0
        self._others: set[str] = set()
        """Waiting cells whose holders are alive beyond doubt: they are no reason to stay."""
        self._out: set[str] = set()
        """Handed out, and not given back."""
        self._release = self._control.last_release()

    @property
    def first(self) -> Cell:
        """The first cell of the plan, whoever gets it: what it needs, the others mostly need too."""
        return self._plan.cell(self._plan.uids[0])

    def next(self) -> Ticket | None:
        """A cell to run now, or None: then there may be one later, unless `over`."""
        with self._lock:
            self._take_back_released()
            while (uid := self._pop()) is not None:
                ticket = self._look(uid)
                if ticket is not None:
                    self._out.add(uid)
                    return ticket
        return None

    def give_back(self, uid: str, wait_s: float | None = 0.0) -> None:
        """What was handed out has ended: to be looked at again after `wait_s` seconds, after all that is fresh.

        With None it is out for good.
        """
        with self._lock:
            self._out.discard(uid)
            if self._apart == uid:
                self._apart = None
            if wait_s is not None:
                self._wait(uid, wait_s)

    @property
    def over(self) -> bool:
        """Whether this process has nothing to wait for: all that is left runs in others that are alive."""
        with self._lock:
            return not self._fresh and all(uid in self._others for _, _, uid in self._later)

    def _pop(self) -> str | None:
        if self._fresh:
            return self._fresh.popleft()
        if self._later and self._later[0][0] <= time.monotonic():
            return heapq.heappop(self._later)[2]
        return None

    def _look(self, uid: str) -> Ticket | None:
        """The ticket if the cell is to be had; else it waits or is out."""
        self._others.discard(uid)
        if self._store.is_done(uid):
            return None
        claims = since_release(history(self._store.attempts_dir(uid)))
        if claims:
            last = claims[-1]
            alive = last.liveness(self._watch)
            if alive is not Liveness.DEAD:
                self._beaten(uid, alive)
                return None
            if self._must_wait(uid, claims):
                return None
        if self._may_run_apart and self._kills(uid, claims):
            if self._apart is not None:
                self._wait(uid, HELD_S)
                return None
            self._apart = uid
            return Ticket(cell=self._plan.cell(uid), claim=None)
        claim = take(self._store.attempts_dir(uid), self._lease, self._watch)
        if claim is None:
            self._beaten(uid, Liveness.UNKNOWN)
            return None
        if self._store.is_done(uid):  # finished by another process between the two looks
            claim.end(Outcome.SUPERSEDED)
            return None
        return Ticket(cell=self._plan.cell(uid), claim=claim, parked_before=_parked_in_a_row(claims))

    def _kills(self, uid: str, claims: Sequence[Claim]) -> bool:
        """Whether it may be the cell that ends its processes."""
        if deaths(claims) < DEATHS_APART:
            return False
        events = read_events(self._store.trajectory_path(uid))
        return deaths_here(claims, events) >= deaths_borne(events)

    def _must_wait(self, uid: str, claims: Sequence[Claim]) -> bool:
        """Whether the cell waits or is out for what has come of it before."""
        ended = claims[-1].ended
        if ended is not None and ended.outcome is Outcome.QUARANTINED:
            return True
        if tries(claims, self._job.id) >= self._job.attempts_max:
            return True
        wait_s = ended.not_before - time.time() if ended is not None and ended.not_before is not None else 0.0
        if wait_s > 0.0:
            self._wait(uid, wait_s)
            return True
        if tries(claims, self._job.id) and self._fresh:
            self._wait(uid, 0.0)
            return True
        return False

    def _beaten(self, uid: str, alive: Liveness) -> None:
        self._wait(uid, HELD_S)
        if alive is Liveness.ALIVE:
            self._others.add(uid)
        if self._fresh:
            index = random.randrange(min(_SPREAD, len(self._fresh)))
            self._fresh[0], self._fresh[index] = self._fresh[index], self._fresh[0]

    def _wait(self, uid: str, wait_s: float) -> None:
        self._number += 1
        heapq.heappush(self._later, (time.monotonic() + wait_s, self._number, uid))

    def _take_back_released(self) -> None:
        release = self._control.last_release()
        if release != self._release:
            self._release = release
            known = {*self._fresh, *self._out, *(uid for _, _, uid in self._later)}
            self._fresh.extend(uid for uid in self._plan.uids if uid not in known)


def since_release(claims: Sequence[Claim]) -> Sequence[Claim]:
    """The claims that count: those after a person has last released the cell."""
    for index in range(len(claims) - 1, -1, -1):
        ended = claims[index].ended
        if ended is not None and ended.outcome is Outcome.RELEASED:
            return claims[index + 1 :]
    return claims


def tries(claims: Sequence[Claim], job: str) -> int:
    """How often this launch has failed on the cell."""
    return sum(
        claim.job == job and claim.ended is not None and claim.ended.outcome is Outcome.FAILED for claim in claims
    )


def deaths(claims: Sequence[Claim]) -> int:
    """Claims whose processes ended without a word. The last one must be known to be over."""
    return sum(claim.ended is None for claim in claims)


def deaths_here(claims: Sequence[Claim], events: Sequence[Event]) -> int:
    """Those of them that came at the place where the journal now ends."""
    progressed: set[int] = set()
    attempt = 0
    for event in events:
        if event["kind"] == "start":
            attempt = event["attempt"]
        else:
            progressed.add(attempt)
    count = 0
    for claim in reversed(claims):
        count += claim.ended is None
        if claim.number in progressed:
            break
    return count


def deaths_borne(events: Sequence[Event]) -> int:
    """How many at one place do not make the cell a suspect, plus one."""
    done = [event["kind"] for event in events if event["kind"] != "start"]
    return DEATHS_WAITING if done and done[-1] == "request" else DEATHS_APART


def _parked_in_a_row(claims: Sequence[Claim]) -> int:
    count = 0
    for claim in reversed(claims):
        if claim.ended is None or claim.ended.outcome is not Outcome.PARKED:
            break
        count += 1
    return count

"""Where a sweep stands, read from its store alone: any host may ask, also while workers run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from orchestrator.limits.summary import Summary, summary
from orchestrator.store.claims import Claim, Outcome, history
from orchestrator.store.control import Control
from orchestrator.store.index import Row
from orchestrator.store.journal import Event, read_events
from orchestrator.store.leases import Liveness, Pulse, Watch, live_leases
from orchestrator.store.store import Store
from orchestrator.sweep.queue import deaths, since_release

RATE_S = 3600.0
"""The pace of a sweep is that of its last hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A cell that a process works on."""

    uid: str
    attempt: int
    turn: int
    """Turns that were asked for."""
    host: str
    pid: int
    running_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """A cell that was begun and has neither a record nor a process."""

    uid: str
    attempt: int
    turn: int
    """Turns that were asked for."""
    outcome: Outcome | None
    """How its last attempt ended; None when the process died."""
    cause: str
    in_s: float | None = None
    """Seconds until a parked cell is taken again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSeen:
    """One worker process with a lease."""

    name: str
    host: str
    pid: int
    job: str
    liveness: Liveness
    beat_age_s: float
    """Seconds since its last heartbeat, by the clocks of its host and this one."""
    loops: int
    loops_at_work: int
    judges: int
    judges_at_work: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Counts of the planned cells: `planned` is the sum of done, running, parked, quarantined, owed and untouched."""

    planned: int
    done: dict[str, int]
    """Verdict -> cells."""
    running: list[Running]
    parked: list[Owed]
    """Put aside for the provider's sake; taken again by themselves."""
    quarantined: list[Owed]
    """They end the process that runs them; `retry` releases them."""
    owed: list[Owed]
    untouched: int
    tokens: int
    """Tokens of finished cells whose models state them."""
    cost_usd: float
    """Dollars of finished cells whose cost is known."""
    cells_without_cost: int
    cells_per_h: float | None
    """Cells finished in the last hour, or since the first one if that is less; None before there is one."""
    eta_s: float | None
    """Seconds until the rest is done at the pace of the finished cells; None when nothing runs."""
    paused: str | None
    """Why no new cell is taken, if a person or a spent cap is the reason."""
    limits: Summary
    """Spend against caps, and the breaker's pause."""
    workers: list[WorkerSeen] = field(default_factory=list)

    @property
    def done_total(self) -> int:
        """Cells with a record."""
        return sum(self.done.values())

    @property
    def at_work(self) -> bool:
        """Whether any process works on the sweep, as far as this process knows."""
        return any(worker.liveness is not Liveness.DEAD for worker in self.workers)


def collect(store: Store, uids: Iterable[str], watch: Watch | None = None) -> Status:
    """The status of the planned cells. Opens only folders of cells that were begun and have no record.

    Who asks again gives the same `watch` each time: a dead worker of another host is known by that alone.
    """
    watch = watch or Watch()
    planned = dict.fromkeys(uids)
    begun = store.begun()
    rows = store.indexed(begun)
    for uid in planned:
        # Few: those at work, and those whose process was killed before the index had them.
        if uid in begun and uid not in rows and (record := store.read_record(uid)) is not None:
            rows[uid] = Row.of(record)
    finished = [rows[uid] for uid in planned if uid in rows]
    running: list[Running] = []
    others: list[Owed] = []
    for uid in planned:
        if uid in rows or uid not in begun:
            continue
        claims = history(store.attempts_dir(uid))
        if not claims:
            if (store.attempts_dir(uid) / "1.json").exists():
                others.append(_begun_before(uid, read_events(store.trajectory_path(uid))))
            continue
        if claims[-1].ended is not None and claims[-1].ended.outcome is Outcome.RELEASED:
            continue
        events = read_events(store.trajectory_path(uid))
        if claims[-1].liveness(watch) is Liveness.DEAD:
            others.append(_owed(uid, claims, events))
        else:
            running.append(_running(uid, claims[-1], events))
    pause = Control(store).paused()
    by_outcome = {outcome: [one for one in others if one.outcome is outcome] for outcome in _SHOWN_APART}
    return Status(
        planned=len(planned),
        done=dict(Counter(row.verdict for row in finished).most_common()),
        running=running,
        parked=by_outcome[Outcome.PARKED],
        quarantined=by_outcome[Outcome.QUARANTINED],
        owed=[one for one in others if one.outcome not in _SHOWN_APART],
        untouched=len(planned) - len(finished) - len(running) - len(others),
        tokens=sum((row.prompt_tokens or 0) + (row.completion_tokens or 0) for row in finished),
        cost_usd=sum(row.cost_usd or 0.0 for row in finished),
        cells_without_cost=sum(row.cost_usd is None for row in finished),
        cells_per_h=cells_per_h(finished, time.time()),
        eta_s=eta_s(finished, len(planned) - len(finished), len(running)),
        paused=f"{pause.by.lower()}: {pause.reason}" if pause is not None else None,
        limits=summary(store.root),
        workers=[_worker(*seen) for seen in live_leases(store.leases_dir, watch)],
    )


_SHOWN_APART = (Outcome.PARKED, Outcome.QUARANTINED)


def eta_s(finished: Sequence[Row], left: int, loops: int) -> float | None:
    """Seconds for the cells that are left, at the mean pace of the finished ones; None when it cannot be said."""
    if not finished or not loops:
        return None
    return left * sum(row.wall_s for row in finished) / len(finished) / loops


def cells_per_h(finished: Sequence[Row], now: float) -> float | None:
    """Cells an hour over the last RATE_S seconds, or since the first cell ended; None when none ended in them."""
    since = _iso(now - RATE_S)
    recent = [row.finished_at for row in finished if row.finished_at >= since]
    if not recent:
        return None
    elapsed_s = RATE_S if len(recent) < len(finished) else now - datetime.fromisoformat(min(recent)).timestamp()
    return 3600.0 * len(recent) / max(elapsed_s, 1.0)


def turns_begun(events: Sequence[Event]) -> int:
    """How many turns a trajectory knows, the one at work included."""
    return len({event["turn"] for event in events if "turn" in event})


def _iso(unix_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(unix_s))


def _running(uid: str, claim: Claim, events: Sequence[Event]) -> Running:
    starts = [event["t"] for event in events if event["kind"] == "start" and event["attempt"] == claim.number]
    return Running(
        uid=uid,
        attempt=claim.number,
        turn=turns_begun(events),
        host=claim.holder.host,
        pid=claim.holder.pid,
        running_s=max(0.0, time.time() - starts[-1]) if starts else 0.0,
    )


def _begun_before(uid: str, events: Sequence[Event]) -> Owed:
    """A cell whose claims are in the form of store version 1: of processes that are long gone."""
    cause = "begun by an earlier version of Kernelsweep"
    return Owed(uid=uid, attempt=0, turn=turns_begun(events), outcome=None, cause=cause)


def _owed(uid: str, claims: Sequence[Claim], events: Sequence[Event]) -> Owed:
    last = claims[-1]
    ended = last.ended
    waits_s = ended.not_before - time.time() if ended is not None and ended.not_before is not None else None
    return Owed(
        uid=uid,
        attempt=last.number,
        turn=turns_begun(events),
        outcome=ended.outcome if ended is not None else None,
        cause=_cause(claims),
        in_s=max(0.0, waits_s) if waits_s is not None else None,
    )


def _cause(claims: Sequence[Claim]) -> str:
    last = claims[-1]
    if last.ended is None:
        count = deaths(since_release(claims))
        before = f", as {count} did over this cell" if count > 1 else ""
        return f"process {last.holder.pid} on {last.holder.host} died{before}"
    return last.ended.cause or last.ended.outcome.lower()


def _worker(pulse: Pulse, liveness: Liveness) -> WorkerSeen:
    return WorkerSeen(
        name=pulse.worker,
        host=pulse.holder.host,
        pid=pulse.holder.pid,
        job=pulse.job,
        liveness=liveness,
        beat_age_s=max(0.0, time.time() - pulse.at),
        loops=pulse.load.loops,
        loops_at_work=pulse.load.loops_at_work,
        judges=pulse.load.judges,
        judges_at_work=pulse.load.judges_at_work,
    )

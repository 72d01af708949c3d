"""The verbs that look at a sweep from outside, from any host: status, wait."""

from __future__ import annotations

import argparse
import gc
import shutil
import sys
import time
from collections.abc import Iterator, Sequence

from evaluation.serialize import to_plain
from orchestrator.cli.answer import DONE, FAILED, Answer
from orchestrator.cli.sweep import opened
from orchestrator.report.page_format import seconds
from orchestrator.store.leases import Liveness, Watch
from orchestrator.sweep.jobs import collect_tasks
from orchestrator.sweep.status import Owed, Status, collect

WATCH_S = 2.0
"""Seconds between two looks."""
QUEUE_S = 20.0
"""Seconds between two questions to a batch system, and without a worker before the first."""
_LISTED = 20
"""Cells of one kind that are listed for a person."""


def status(arguments: argparse.Namespace) -> Answer:
    """Where the planned cells stand."""
    watch = Watch()
    gc.disable()  # 100,000 plain tuples have no cycles, and looking for some takes a sixth of the time
    try:
        experiment, store, uids = opened(arguments)
        found = collect(store, uids, watch)
    finally:
        gc.enable()
    asked = time.monotonic()
    batch = collect_tasks(store)
    while arguments.watch and (found.at_work or batch.live) and found.done_total < found.planned:
        _redraw([*lines(experiment.name, found), *batch.lines()])
        time.sleep(WATCH_S)
        found = collect(store, uids, watch)
        if time.monotonic() - asked > QUEUE_S:
            batch, asked = collect_tasks(store), time.monotonic()
    data = {"experiment": experiment.name, "done_total": found.done_total, **to_plain(found), "batch": to_plain(batch)}
    return Answer(text="\n".join([*lines(experiment.name, found), *batch.lines()]), data=data)


def wait(arguments: argparse.Namespace) -> Answer:
    """Return when every planned cell is done (0), or nothing works on them any more (1)."""
    experiment, store, uids = opened(arguments)
    watch = Watch()
    last_seen = time.monotonic()
    while True:
        found = collect(store, uids, watch)
        done = found.done_total == found.planned
        if done:
            break
        idle_s = time.monotonic() - last_seen
        # Jobs may wait for days where no worker is heard of; their queue is not asked at every look.
        if found.at_work or (idle_s > min(QUEUE_S, arguments.patience) and collect_tasks(store).live):
            last_seen = time.monotonic()
        elif idle_s > arguments.patience:
            break
        time.sleep(WATCH_S)
    data = {"experiment": experiment.name, "done_total": found.done_total, "planned": found.planned}
    return Answer(text="\n".join(lines(experiment.name, found)), data=data, code=DONE if done else FAILED)


def lines(name: str, found: Status) -> Iterator[str]:
    """The status for a person."""
    verdicts = ", ".join(f"{count:,} {verdict}" for verdict, count in found.done.items()) or "none yet"
    yield f"{name}: {found.done_total:,} of {found.planned:,} done ({verdicts})"
    yield (
        f"{len(found.running):,} running, {len(found.parked):,} parked, {len(found.owed):,} owed again, "
        f"{len(found.quarantined):,} quarantined, {found.untouched:,} untouched"
    )
    if found.paused is not None:
        yield f"paused: {found.paused}"
    unknown = f" and {found.cells_without_cost:,} cells of unknown cost" if found.cells_without_cost else ""
    pace = f", {found.cells_per_h:,.0f} cells/h" if found.cells_per_h is not None else ""
    left = f", about {seconds(found.eta_s)} to go" if found.eta_s is not None else ""
    yield f"{found.tokens:,} tokens, ${found.cost_usd:.2f}{unknown}{pace}{left}"
    yield from found.limits.lines()
    for worker in found.workers:
        state = "" if worker.liveness is Liveness.ALIVE else f" ({worker.liveness.lower()})"
        yield (
            f"  worker   {worker.name} on {worker.host}{state}: {worker.loops_at_work}/{worker.loops} loops, "
            f"{worker.judges_at_work}/{worker.judges} judges at work, heartbeat {seconds(worker.beat_age_s)} ago"
        )
    yield from _some([f"  running  {one.uid}  turn {one.turn}, {seconds(one.running_s)}" for one in found.running])
    yield from _some([f"  parked   {_told(one)}" for one in found.parked])
    yield from _some([f"  owed     {_told(one)}" for one in found.owed])
    yield from _some([f"  quarantined  {_told(one)}; `kernelsweep retry` releases it" for one in found.quarantined])


def _told(one: Owed) -> str:
    again = f", again in {seconds(one.in_s)}" if one.in_s is not None else ""
    return f"{one.uid}  attempt {one.attempt}{again}: {one.cause}"


def _some(listed: Sequence[str]) -> Iterator[str]:
    yield from listed[:_LISTED]
    if len(listed) > _LISTED:
        yield f"  ... and {len(listed) - _LISTED:,} more; --json lists all"


def _redraw(text: Sequence[str]) -> None:
    columns, rows = shutil.get_terminal_size()
    start = "\033[H\033[J" if sys.stderr.isatty() else ""
    shown = "\n".join(line[: columns - 1] for line in text[: rows - 1]) if sys.stderr.isatty() else "\n".join(text)
    sys.stderr.write(f"{start}{shown}\n")
    sys.stderr.flush()

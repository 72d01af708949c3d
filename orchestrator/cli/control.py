"""The verbs that steer a sweep from outside, from any host: pause, resume, cancel, retry."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from orchestrator.cli.answer import Answer, UsageError
from orchestrator.cli.sweep import opened
from orchestrator.limits.breaker import lift_pause
from orchestrator.limits.limits import limits_root
from orchestrator.store.control import Control
from orchestrator.store.index import Row
from orchestrator.store.job import new_job_id
from orchestrator.sweep.retry import release

FIELDS = ("uid", "problem", "model", "agent", "budget", "evaluation", "seed", "verdict", "exit_status")
"""What `--where` can ask for: the index's words about a finished cell."""
OWED = "OWED"
"""The verdict of cells that have none."""


def pause(arguments: argparse.Namespace) -> Answer:
    """Have the workers take no new cell."""
    _, store, _ = opened(arguments)
    control = Control(store)
    control.pause(arguments.reason)
    stands = control.paused()
    reason = stands.reason if stands is not None else "and resumed by somebody else"
    text = f"paused: {reason}; what is at work is finished, and `kernelsweep resume` goes on"
    return Answer(text=text, data={"paused": reason})


def resume(arguments: argparse.Namespace) -> Answer:
    """Lift the pause."""
    _, store, _ = opened(arguments)
    stood = Control(store).resume()
    broken = lift_pause(limits_root(store.root))
    reasons = [stood.reason] if stood is not None else []
    reasons += [f"breaker: {broken.cause}"] if broken is not None else []
    text = f"resumed; it was paused: {'; '.join(reasons)}" if reasons else "nothing was paused"
    return Answer(text=text, data={"was_paused": "; ".join(reasons) or None})


def cancel(arguments: argparse.Namespace) -> Answer:
    """Have the workers of all launches so far stop after their turns."""
    _, store, _ = opened(arguments)
    jobs = Control(store).cancel()
    text = f"{len(jobs)} launches are told to stop after their turns; `kernelsweep run` goes on with what is owed"
    return Answer(text=text, data={"cancelled": jobs})


def retry(arguments: argparse.Namespace) -> Answer:
    """Have finished cells run anew, and owed and quarantined ones tried again."""
    _, store, uids = opened(arguments)
    wanted = _filter(arguments.where)
    rows = store.rows()
    begun = store.begun()
    chosen = [uid for uid in uids if uid in begun and wanted(rows.get(uid))]
    released, held = release(store, chosen, f"retry-{new_job_id()}")
    text = f"{len(released):,} cells are to be run again; old records stay beside the new ones as record-<attempt>.json"
    if held:
        text += f"\n{len(held):,} cells are being worked on and were left alone"
    return Answer(text=text, data={"released": released, "held": held})


def _filter(conditions: list[str]) -> Callable[[Row | None], bool]:
    """Whether a cell meets all conditions; without any, exactly the cells without a record do."""
    pairs = [_condition(text) for text in conditions] or [("verdict", OWED)]

    def meets(row: Row | None) -> bool:
        if row is None:
            return pairs == [("verdict", OWED)]
        return all(str(getattr(row, field)) == value for field, value in pairs)

    return meets


def _condition(text: str) -> tuple[str, str]:
    field, equals, value = text.partition("=")
    if not equals or field not in FIELDS:
        raise UsageError(f"--where takes FIELD=VALUE, not {text!r}; fields are {', '.join(FIELDS)}")
    return field, value

"""The verb explain: one cell's identity and state, and in what it differs from another one."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from evaluation.serialize import to_plain
from orchestrator.cell import Cell
from orchestrator.cli.answer import Answer, UsageError
from orchestrator.config.experiment import ConfigError, load_experiment
from orchestrator.diff import Nearest
from orchestrator.identity import Move, leaves, moves, recognise
from orchestrator.plan import Plan, make_plan
from orchestrator.report.page_format import seconds
from orchestrator.settings import RootSettings
from orchestrator.store.store import Store
from orchestrator.sweep.status import collect
from problems.problem import ProblemError

_MATCHES_SHOWN = 5
_KEYS = {*(item.name for item in dataclasses.fields(RootSettings)), "experiment", "zip", "exclude"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A store, and what is planned for it."""

    store: Store
    stored: set[str]
    planned: dict[str, Cell]
    note: str = ""
    """Why nothing is known to be planned."""

    def uids(self) -> set[str]:
        return self.stored | self.planned.keys()

    def cell(self, uid: str) -> Cell:
        return self.planned.get(uid) or self.store.read_cell(uid)


def explain(arguments: argparse.Namespace) -> Answer:
    """Identity, state, and the difference to another cell or to the nearest one."""
    words = [word for word in arguments.overrides if not _is_override(word)]
    overrides = [word for word in arguments.overrides if _is_override(word)]
    if len(words) > 1:
        raise UsageError(f"explain compares two cells; {', '.join(words[1:])} would be more")
    place, uid = _found(arguments.cell, _places(arguments.cell, arguments.out, overrides))
    cell = place.cell(uid)
    other_uid = _match(words[0], place.uids()) if words else None
    other, role = (place.cell(other_uid), "the cell asked for") if other_uid is not None else _nearest(place, uid, cell)
    state = _state(place, uid)
    found = moves(other.identity, cell.identity) if other is not None else []
    lines = [uid, f"  experiment {place.store.name}: {state['text']}"]
    lines += [f"  {name} = {value}" for name, value in leaves(cell.identity)]
    if other is not None:
        lines += [f"against {role}, {other.uid}:", *_moved_lines(found)]
    if place.note:
        lines.append(place.note)
    data: dict[str, Any] = {"uid": uid, "experiment": place.store.name, "state": state, "identity": cell.identity}
    data |= {"other": other.uid if other is not None else None, "moves": to_plain(found), "note": place.note}
    return Answer(text="\n".join(lines), data=data)


def _is_override(word: str) -> bool:
    """A uid may hold `=` too, but none begins with a key of the config."""
    return "=" in word and re.split(r"[.=]", word.lstrip("+~"))[0] in _KEYS


def _places(part: str, outputs: Path, overrides: Sequence[str]) -> Iterator[_Place]:
    """The experiment that the overrides mean; without any, the store under `outputs` that has the cell, planned as it
    was last run, or all of them when none has. Raises UsageError when several have it.
    """
    if overrides:
        experiment = load_experiment(overrides)
        yield _place(Store(outputs / experiment.name), make_plan(experiment))
        return
    folders = sorted(outputs.iterdir()) if outputs.is_dir() else []
    stores = [Store(folder) for folder in folders if (folder / "cells").is_dir()]
    having = [store for store in stores if any(part in uid for uid in store.begun())]
    if len(having) > 1:
        names = ", ".join(store.name for store in having)
        raise UsageError(
            f"{part!r} is in several experiments, {names}; say which with the overrides that it was run with"
        )
    yield from map(_replanned, having or stores)


def _replanned(store: Store) -> _Place:
    path = store.root / "experiment.yaml"
    if not path.exists():
        return _place(store, None, f"what is planned is not known: {path} is not there")
    overrides = yaml.safe_load(path.read_text(encoding="utf-8"))["overrides"]
    try:
        return _place(store, make_plan(load_experiment(overrides)))
    except (ConfigError, ProblemError) as error:
        return _place(store, None, f"what is planned is not known: {error}")


def _place(store: Store, plan: Plan | None, note: str = "") -> _Place:
    planned = recognise(plan, store).plan.cells if plan is not None else {}
    return _Place(store=store, stored=store.begun(), planned=planned, note=note)


def _found(part: str, places: Iterator[_Place]) -> tuple[_Place, str]:
    """The one cell that `part` means, and where it is. Raises UsageError that suggests near ones."""
    seen: list[str] = []
    for place in places:
        uids = place.uids()
        if any(part in uid for uid in uids):
            return place, _match(part, uids)
        seen += uids
    raise _no_match(part, seen)


def _match(part: str, uids: set[str]) -> str:
    matching = sorted(uid for uid in uids if part in uid)
    if part in uids:
        return part
    if not matching:
        raise _no_match(part, list(uids))
    if len(matching) > 1:
        more = f" and {len(matching) - _MATCHES_SHOWN:,} more" if len(matching) > _MATCHES_SHOWN else ""
        raise UsageError(f"{part!r} could be any of {', '.join(matching[:_MATCHES_SHOWN])}{more}; give more of it")
    return matching[0]


def _no_match(part: str, uids: list[str]) -> UsageError:
    near = difflib.get_close_matches(part, uids, n=3, cutoff=0.3)
    hint = f"the nearest are {', '.join(near)}" if near else "none is near; `kernelsweep plan` lists them"
    return UsageError(f"no cell is called {part!r}: {hint}")


def _nearest(place: _Place, uid: str, cell: Cell) -> tuple[Cell | None, str]:
    """What tells most about the cell: for one that is not planned the nearest planned, for a new one what is stored."""
    if uid not in place.planned:
        return Nearest(place.planned.values()).cell(cell), "the nearest planned cell"
    if uid not in place.stored:
        return Nearest(place.cell(other) for other in place.stored).cell(cell), "the nearest cell of the store"
    return None, ""


def _state(place: _Place, uid: str) -> dict[str, Any]:
    """Where the cell stands: done, running, parked, quarantined, owed or untouched, with what is known about it."""
    status = collect(place.store, [uid])
    planned = "" if uid in place.planned or place.note else ", not in the plan"
    record = place.store.read_record(uid)
    if record is not None:
        text = f"done, {record.verdict} at {record.finished_at}, attempt {record.attempt}, {record.turns} turns"
        return {"state": "done", "verdict": record.verdict, "text": f"{text}{planned}"}
    for running in status.running:
        since = seconds(running.running_s)
        text = f"running since {since}, attempt {running.attempt}, turn {running.turn}, process {running.pid}"
        return {"state": "running", "host": running.host, "text": f"{text} on {running.host}{planned}"}
    for state, cells in (("parked", status.parked), ("quarantined", status.quarantined), ("owed", status.owed)):
        for one in cells:
            again = f", taken again in {seconds(one.in_s)}" if one.in_s is not None else ""
            again = "; `kernelsweep retry` releases it" if state == "quarantined" else again
            text = f"{state} after attempt {one.attempt}, turn {one.turn}: {one.cause}"
            return {"state": state, "cause": one.cause, "text": f"{text}{again}{planned}"}
    return {"state": "untouched", "text": f"not begun{planned}"}


def _moved_lines(found: list[Move]) -> list[str]:
    return [f"  {move}" for move in found] or ["  the same in everything"]

"""The verb plan: the cells of an experiment, what is new about them, and what they may cost."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from typing import Any

from evaluation.serialize import to_plain
from orchestrator.cli.answer import Answer
from orchestrator.config.experiment import load_experiment
from orchestrator.diff import Change, changes
from orchestrator.forecast import Forecast, Sum, Worst, forecast
from orchestrator.identity import Known, recognise
from orchestrator.limits.prices import require_prices
from orchestrator.plan import make_plan
from orchestrator.report.page_format import seconds, significant
from orchestrator.store.store import Store

LISTED = 20
"""Cells, and causes, that are listed for a person unless told otherwise."""


def plan(arguments: argparse.Namespace) -> Answer:
    """The cells of an experiment, and which of them have a record."""
    experiment = load_experiment(arguments.overrides)
    require_prices(experiment.asked_models(), experiment.limits)
    made = make_plan(experiment)
    store = Store(arguments.out / experiment.name)
    known = recognise(made, store, whole=arguments.diff)
    cells = known.plan.cells
    begun = store.begun()
    done = {uid for uid in cells if uid in begun and store.is_done(uid)}
    pending = [cell for uid, cell in cells.items() if uid not in done]
    costs = forecast(pending, arguments.out, experiment.launcher) if pending else None
    lines = [
        f"{experiment.name}: {made.formula}",
        f"{len(done):,} done, {len(pending):,} pending in {store.root}",
        *_older_lines(known),
        *(_forecast_lines(costs) if costs is not None else []),
    ]
    data: dict[str, Any] = {
        "experiment": experiment.name,
        "formula": made.formula,
        "cells_total": len(cells),
        "done": len(done),
        "pending": len(pending),
        "store": str(store.root),
        "renamed": known.renamed,
        "judged_before": known.judged_before,
        "forecast": to_plain(costs),
    }
    if arguments.diff:
        stored = [*(cell for uid, cell in cells.items() if uid in begun), *known.strangers.values()]
        found = changes({uid: cell for uid, cell in cells.items() if uid not in begun}, stored)
        lines += _diff_lines(found, known)
        data |= {"changes": to_plain(found), "strangers": sorted(known.strangers), "foreign": known.foreign}
    if arguments.verify:
        from orchestrator.config.verify import verify

        verified = verify(experiment, made, arguments.verify)
        took_s = statistics.median(verified.compose_s)
        lines.append(f"{verified.cells:,} cells equal what Hydra composes, {seconds(took_s)} each")
        data["verified"] = to_plain(verified)
    limit = arguments.limit if arguments.limit is not None else (0 if arguments.json else LISTED)
    shown = list(cells)[: limit or None]
    lines += [f"  {'done   ' if uid in done else 'pending'}  {uid}" for uid in shown]
    if len(shown) < len(cells):
        lines.append(f"  ... and {len(cells) - len(shown):,} more; --limit 0 lists all")
    axes = ("problem", "model", "agent", "budget", "evaluation", "seed")
    data["cells"] = [
        {"uid": uid, **{axis: getattr(cells[uid], axis) for axis in axes}, "done": uid in done} for uid in shown
    ]
    return Answer(text="\n".join(lines), data=data)


def _older_lines(known: Known) -> Iterator[str]:
    if known.renamed:
        yield f"{known.renamed:,} of them were begun by an older version, and keep the names that it gave them"
    doubt = known.doubt()
    if doubt is not None:
        yield f"{doubt}; `run` asks for --again"


def _diff_lines(found: list[Change], known: Known) -> Iterator[str]:
    if not found:
        yield "nothing is new"
    for change in found[:LISTED]:
        yield f"  {_cells(len(change.uids))} new: {change.cause}"
    if len(found) > LISTED:
        rest = sum(len(change.uids) for change in found[LISTED:])
        yield f"  {_cells(rest)} new by {len(found) - LISTED:,} more causes; --json lists all"
    if known.strangers:
        yield f"  {_cells(len(known.strangers))} of the store not in this plan"


def _forecast_lines(costs: Forecast) -> Iterator[str]:
    amounts = [
        f"tokens {_amount(costs.tokens, costs.cells, _grouped)}",
        f"cost {_amount(costs.cost_usd, costs.cells, _dollars)}",
        f"GPU-hours {_amount(costs.gpu_s, costs.cells, _hours)}",
        f"work {_amount(costs.work_s, costs.cells, seconds)}",
    ]
    wall_s = costs.wall_s
    if wall_s is not None:
        amounts.append(f"wall {seconds(wall_s)} with {costs.loops} at a time")
    yield f"expected: {'; '.join(amounts)}"
    basis = "; ".join(f"{_cells(cells)} by {by}" for by, cells in costs.basis.items() if by != "unknown")
    unknown = costs.basis.get("unknown", 0)
    if basis:
        yield f"  from {costs.comparable_cells:,} finished cells: {basis}"
    if unknown:
        yield f"  nothing is known of {_cells(unknown)}: no cell of their model has been finished"
    tokens = _at_most(costs.worst_tokens, costs.cells, _grouped, "without limit")
    dollars = _at_most(costs.worst_cost_usd, costs.cells, _dollars, "without limit or price")
    yield f"at most, by budgets and prices: tokens {tokens}; cost {dollars}"


def _amount(found: Sum, cells: int, shown: Callable[[float], str]) -> str:
    """The sum of medians with its quartiles; how many cells are not in it."""
    if found.unknown_cells == cells:
        return "unknown"
    spread = f" ({shown(found.low)} to {shown(found.high)})" if found.low != found.high else ""
    without = f" and {_cells(found.unknown_cells)} unknown" if found.unknown_cells else ""
    return f"{shown(found.median)}{spread}{without}"


def _at_most(found: Worst, cells: int, shown: Callable[[float], str], unlimited: str) -> str:
    if found.unknown_cells == cells:
        return unlimited
    rest = f" and {_cells(found.unknown_cells)} {unlimited}" if found.unknown_cells else ""
    return f"{shown(found.value)}{rest}"


def _cells(count: int) -> str:
    return f"{count:,} cell{'' if count == 1 else 's'}"


def _grouped(value: float) -> str:
    return f"{value:,.0f}"


def _dollars(value: float) -> str:
    return f"${value:,.2f}"


def _hours(value_s: float) -> str:
    return significant(value_s / 3600, 3)

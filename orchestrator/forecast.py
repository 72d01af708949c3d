"""What the cells that are left may cost: by what comparable finished cells used, and at most by budget and price.

Comparable are finished cells of any experiment under outputs/ with the same model, agent and budget, by name; where
there are none, those with the same model. What neither tells is unknown, and said to be.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.settings import AgentKind, ModelKind, Price
from orchestrator.cell import Cell
from orchestrator.settings import LauncherKind, LauncherSettings
from orchestrator.store.files import Tail
from orchestrator.store.index import Row, parse_row
from orchestrator.store.store import Store

Spread = tuple[float, float, float]
"""Lower quartile, median, upper quartile."""
NOTHING: Spread = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """One quantity over all cells that are left: the medians, and the quartiles, of comparable cells added up."""

    median: float
    low: float
    high: float
    unknown_cells: int
    """Cells that are not in the sum, as nothing comparable says what they take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """What the budgets allow; a cell's last reply may go beyond its own budget by itself."""

    value: float
    unknown_cells: int
    """Cells without such a budget, or whose model has no price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Of the cells that are left."""

    cells: int
    tokens: Sum
    cost_usd: Sum
    work_s: Sum
    """Seconds of the cells, one after the other."""
    gpu_s: Sum
    """Seconds in tools of cells that are judged on a GPU: an upper bound of what the GPU is needed for."""
    worst_tokens: Worst
    worst_cost_usd: Worst
    loops: int | None
    """Cells at work at a time; None when the launcher does not say."""
    basis: dict[str, int]
    """How many cells are forecast by `model, agent and budget`, by `model`, and by nothing (`unknown`)."""
    comparable_cells: int
    """Finished cells that this rests on."""

    @property
    def wall_s(self) -> float | None:
        """Seconds until all are done; None when that is not known of every cell."""
        return None if self.loops is None or self.work_s.unknown_cells else self.work_s.median / self.loops


def forecast(left: Iterable[Cell], outputs: Path, launcher: LauncherSettings) -> Forecast:
    """Forecast the given cells from the stores under `outputs`, as `launcher` would run them."""
    history = _History(outputs)
    cells = list(left)
    counted: dict[tuple[str, str, str, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        counted[(cell.model, cell.agent, cell.budget, cell.evaluation)].append(cell)
    groups = [_Group(cells=len(members), cell=members[0], history=history) for members in counted.values()]
    basis: dict[str, int] = defaultdict(int)
    for group in groups:
        basis[group.basis] += group.cells
    return Forecast(
        cells=len(cells),
        tokens=_sum(groups, lambda group: group.spread(_tokens) if group.asks else NOTHING),
        cost_usd=_sum(groups, lambda group: group.spread(lambda row: row.cost_usd) if group.pays else NOTHING),
        work_s=_sum(groups, lambda group: group.spread(lambda row: row.wall_s)),
        gpu_s=_sum(groups, lambda group: NOTHING if group.device == "cpu" else group.spread(lambda row: row.tools_s)),
        worst_tokens=_worst(groups, _Group.worst_tokens),
        worst_cost_usd=_worst(groups, _Group.worst_cost_usd),
        loops=_loops(launcher),
        basis=dict(basis),
        comparable_cells=len({row.uid for group in groups for row in group.rows}),
    )


class _History:
    """Finished cells under the outputs folder, by what they can be compared by."""

    def __init__(self, outputs: Path) -> None:
        self.exact: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
        self.by_model: dict[tuple[str, bool], list[Row]] = defaultdict(list)
        """By model, and whether it was asked: a cell that asked no model says nothing about one that does."""
        for row in _rows(outputs):
            self.exact[(row.model, row.agent, row.budget)].append(row)
            self.by_model[(row.model, row.turns > 0)].append(row)


class _Group:
    """Cells that are alike in all but problem and seed."""

    def __init__(self, *, cells: int, cell: Cell, history: _History) -> None:
        self.cells = cells
        self._model = {**cell.runtime["model"], **cell.identity["model"]}
        self._budget = cell.identity["budget"]
        self.asks = cell.identity["agent"]["kind"] != AgentKind.baseline.value
        free = self._model.get("price") == Price.free.value
        self.pays = self.asks and self._model["kind"] == ModelKind.litellm.value and not free
        self.device: str = cell.identity["evaluation"]["device"]
        exact = history.exact.get((cell.model, cell.agent, cell.budget))
        alike = history.by_model.get((cell.model, self.asks))
        self.rows: list[Row] = exact or alike or []
        self.basis = "model, agent and budget" if exact else "model" if alike else "unknown"

    def spread(self, of: Callable[[Row], float | None]) -> Spread | None:
        """What comparable cells used; None when no such cell says."""
        values = sorted(value for row in self.rows if (value := of(row)) is not None)
        if len(values) < 2:
            return (values[0], values[0], values[0]) if values else None
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        return low, middle, high

    def worst_tokens(self) -> float | None:
        """Tokens that one cell's budget allows, by itself or by its turns with the model's context full in each."""
        if not self.asks:
            return 0.0
        limits: list[float] = [] if self._budget["tokens"] is None else [self._budget["tokens"]]
        context: int | None = self._model.get("context_tokens")
        if context is not None:
            limits.append(self._budget["turns"] * (context + self._model.get("uncounted_reasoning_tokens", 0)))
        return min(limits, default=None)

    def worst_cost_usd(self) -> float | None:
        """Dollars that one cell's budget allows, by itself or by its tokens at the model's highest price."""
        if not self.pays:
            return 0.0
        limits: list[float] = [] if self._budget["cost_usd"] is None else [self._budget["cost_usd"]]
        price, tokens = _highest_price_usd(self._model), self.worst_tokens()
        if price is not None and tokens is not None:
            limits.append(price * tokens)
        return min(limits, default=None)


def _highest_price_usd(model: dict[str, Any]) -> float | None:
    """Dollars of one token of the dearest kind, where the settings state the price of prompts and of completions."""
    prices = {key: value for key, value in model.items() if key.startswith("price_") and key.endswith("_usd_per_mtok")}
    if any(prices.get(f"price_{kind}_usd_per_mtok") is None for kind in ("input", "output")):
        return None
    dearest: float = max(value for value in prices.values() if value is not None)
    return dearest / 1e6


def _rows(outputs: Path) -> Iterator[Row]:
    """What the indexes list; a record that none lists yet would have to be opened, and one cell changes no median."""
    for folder in sorted(outputs.iterdir()) if outputs.is_dir() else ():
        for data in Tail(Store(folder).index_dir).poll():
            row = parse_row(data)
            if row is not None:
                yield row


def _tokens(row: Row) -> float | None:
    if row.prompt_tokens is None or row.completion_tokens is None:
        return None
    return row.prompt_tokens + row.completion_tokens


def _sum(groups: list[_Group], spread: Callable[[_Group], Spread | None]) -> Sum:
    found = [(group.cells, spread(group)) for group in groups]
    known = [(cells, values) for cells, values in found if values is not None]
    low, median, high = (sum(cells * values[index] for cells, values in known) for index in range(3))
    return Sum(median=median, low=low, high=high, unknown_cells=sum(cells for cells, values in found if values is None))


def _worst(groups: list[_Group], limit: Callable[[_Group], float | None]) -> Worst:
    found = [(group.cells, limit(group)) for group in groups]
    return Worst(
        value=sum(cells * value for cells, value in found if value is not None),
        unknown_cells=sum(cells for cells, value in found if value is None),
    )


def _loops(launcher: LauncherSettings) -> int | None:
    if launcher.kind is LauncherKind.inline:
        return 1
    return launcher.workers if launcher.kind is LauncherKind.local else None

"""Experiment -> cells: the product in plain Python, replicate by replicate."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evaluation import EVALUATOR_VERSION
from orchestrator.cell import SCHEMA_VERSION, Cell, canonical_json, uid_of
from orchestrator.config.experiment import ConfigError, Experiment, Grid, Option

VERSIONS = {"schema_version": SCHEMA_VERSION, "evaluator_version": EVALUATOR_VERSION}
CELL_LIMIT = 1_000_000
"""Cells that one plan may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Every cell of an experiment, once."""

    cells: dict[str, Cell]
    """By uid, in the order in which they are to be run: all of the first seed, then all of the second."""
    formula: str
    """How the number of cells comes about, such as `3 problems x 2 budgets x 2 seeds = 12`."""


def make_plan(experiment: Experiment) -> Plan:
    """Form the union of the grids; a cell that two of them name is one cell. Raises ConfigError beyond CELL_LIMIT."""
    by_seed, kept = _points(experiment)
    cells: dict[str, Cell] = {}
    for seed, points in by_seed.items():
        for point in points:
            uid, cell = point.cell(seed)
            cells.setdefault(uid, cell)
    return Plan(cells=cells, formula=_formula(experiment.grids, kept, len(cells)))


def planned_uids(experiment: Experiment) -> list[str]:
    """The uids of the plan in its order, without its cells: a third of the time."""
    by_seed, _ = _points(experiment)
    return list(dict.fromkeys(point.uid(seed) for seed, points in by_seed.items() for point in points))


def _points(experiment: Experiment) -> tuple[dict[int, list[_Point]], list[int]]:
    """What each seed is combined with, and how many cells each grid has."""
    size = sum(grid.size() for grid in experiment.grids)
    if size > CELL_LIMIT:
        raise ConfigError(f"the plan has {size:,} cells, and the limit is {CELL_LIMIT:,}; sweep fewer values")
    by_seed: dict[int, list[_Point]] = {seed: [] for grid in experiment.grids for seed in grid.seed}
    kept = []
    for grid in experiment.grids:
        before = sum(map(len, by_seed.values()))
        for options, seeds in grid.points():
            point = _Point(options)
            for seed in seeds:
                by_seed[seed].append(point)
        kept.append(sum(map(len, by_seed.values())) - before)
    if not any(by_seed.values()):
        raise ConfigError("exclude leaves out every cell of the plan; leave out less, or sweep more values")
    return by_seed, kept


class _Point:
    """One combination of options; its cells differ by seed only, and share everything else."""

    def __init__(self, options: Mapping[str, Option]) -> None:
        self._labels = {group: option.label for group, option in options.items()}
        self._named = tuple(self._labels[group] for group in ("problem", "model", "agent", "budget"))
        self._identity: dict[str, Any] = dict(VERSIONS)
        self._runtime: dict[str, Any] = {}
        for option in options.values():
            self._identity.update(option.identity)
            self._runtime.update(option.runtime)
        before = {key: value for key, value in self._identity.items() if key < "seed"}
        after = {key: value for key, value in self._identity.items() if key > "seed"}
        self._head = hashlib.sha256((canonical_json(before).removesuffix("}") + ',"seed":').encode())
        self._tail = canonical_json(after).replace("{", ",", 1) if after else "}"

    def uid(self, seed: int) -> str:
        """The uid. The identity's text has `seed` in its sorted place, so its hash goes on from there."""
        digest = self._head.copy()
        digest.update(f"{seed}{self._tail}".encode())
        return uid_of(self._named, seed, digest.hexdigest())

    def cell(self, seed: int) -> tuple[str, Cell]:
        """The uid and the cell."""
        cell = Cell(seed=seed, identity={**self._identity, "seed": seed}, runtime=self._runtime, **self._labels)
        return self.uid(seed), cell


def _formula(grids: list[Grid], kept: list[int], total: int) -> str:
    terms = [_term(grid, count) for grid, count in zip(grids, kept, strict=True)]
    duplicates = sum(kept) - total
    merged = f" - {_counted(duplicates, 'duplicate')}" if duplicates else ""
    return f"{' + '.join(terms)}{merged} = {total:,}"


def _term(grid: Grid, kept: int) -> str:
    """Factors of one value go without saying."""
    factors = [
        f"zip({len(factor.steps):,})" if factor in grid.zips else _counted(len(factor.steps), factor.axes[0])
        for factor in grid.factors()
        if len(factor.steps) > 1
    ]
    left_out = grid.size() - kept
    return (" x ".join(factors) or "1 cell") + (f" - {left_out:,} excluded" if left_out else "")


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"

"""Is the candidate's output as right as floating-point arithmetic allows? `tolerance.py` has the rule and its reasons.

Structure comes first, then NaN and infinity in the same places, then values, streamed in blocks of bounded size.
Whole numbers, bools, indices and strings must equal the reference's or, where rounding decided a comparison so that
the two disagree, the oracle's. Ties therefore fall as the reference's operator lets them fall (argmax: the first).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from evaluation.correctness.figures import RELATIVE_FLOOR, BlockErrors, ErrorFigures, Tally
from evaluation.correctness.nested import leaves, structure_fault
from evaluation.correctness.tolerance import (
    LEAST_SCALE,
    MIN_ROW,
    Yardstick,
    describe,
    least_unit,
    roundoff,
)
from evaluation.verdict import Status

CHUNK_ELEMENTS = {"cpu": 2**17, "cuda": 2**24}
"""Elements of an output, by device, that are held in float64 at a time: few enough for a processor's cache, enough for
an accelerator to be busy. Some 15 such blocks are there at once, so 2 GB there."""
_SHOWN = 4
"""Wrong outputs that a message describes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What came of one candidate output."""

    status: Status
    """PASSED, INCORRECT_STRUCTURE or INCORRECT_VALUES."""
    message: str
    """Empty when passed; bounded, and free of values of inputs and outputs."""
    figures: ErrorFigures | None
    """None when the structure is wrong, so that nothing can be subtracted."""
    tolerance: str
    """The rule that was applied, in words and numbers."""

    @property
    def passed(self) -> bool:
        """Whether the candidate was right."""
        return self.status is Status.PASSED


def compare(candidate: Any, native: Any, oracle: Any, precision: str, yardstick: Yardstick | None = None) -> Comparison:
    """Judge one output of the candidate.

    `native`: what the reference returned at its own precision; it states structure, dtypes and shapes. `oracle`: what
    it returned in float64, or in float32 where operators refuse. These and the yardstick are on one device. Raises
    KeyError on an unknown precision, ValueError when `native`, `oracle` and the yardstick are not alike. A tensor whose
    rows do not lie one after the other is copied; beside that no more memory is taken than for a few blocks.
    """
    yardstick = yardstick or Yardstick()
    tolerance = describe(precision, yardstick.terms)
    fault = structure_fault(candidate, native)
    if fault is not None:
        return Comparison(
            status=Status.INCORRECT_STRUCTURE,
            message=fault,
            figures=None,
            tolerance=tolerance,
        )
    tallies = {}
    condition = native if yardstick.condition is None else yardstick.condition
    nests = zip(leaves(candidate), leaves(native), leaves(oracle), leaves(condition), strict=True)
    for (where, ours), (_, reference), (_, exact), (_, moved) in nests:
        moved = None if yardstick.condition is None else moved
        tallies[where] = _judge(_leaf(ours, reference, exact, moved), precision, yardstick.terms)
    wrong = [f"{where}: {tally.explain()}" for where, tally in tallies.items() if not tally.passed]
    more = [f"{len(wrong) - _SHOWN} more outputs are wrong"] if len(wrong) > _SHOWN else []
    figures = ErrorFigures()
    for tally in tallies.values():
        figures = figures.merge(tally.figures)
    return Comparison(
        status=Status.PASSED if all(tally.passed for tally in tallies.values()) else Status.INCORRECT_VALUES,
        message="; ".join(wrong[:_SHOWN] + more),
        figures=figures,
        tolerance=tolerance,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leaf:
    """One output as tables of (rows, columns), and its shape before that."""

    shape: torch.Size
    candidate: torch.Tensor
    native: torch.Tensor
    oracle: torch.Tensor
    condition: torch.Tensor | None


def _leaf(candidate: Any, native: Any, oracle: Any, condition: Any) -> _Leaf:
    parts: list[Any]
    if isinstance(native, torch.Tensor):
        parts = [candidate, native, oracle, condition]
    elif isinstance(native, (bool, int, float)):
        dtype = torch.float64 if isinstance(native, float) else torch.int64
        parts = [*(torch.tensor(value, dtype=dtype) for value in (candidate, native, oracle)), None]
    else:
        same = candidate in (native, oracle)
        parts = [torch.tensor(same), torch.tensor(True), torch.tensor(True), None]
    if any(part is not None and part.shape != parts[1].shape for part in parts):
        raise ValueError(f"the oracle's output has shape {list(oracle.shape)}, the reference's {list(native.shape)}")
    parts = [torch.view_as_real(part) if part is not None and part.is_complex() else part for part in parts]
    shape, columns = parts[1].shape, 1
    for size in reversed(shape):
        columns *= size
        if columns >= MIN_ROW:
            break
    tables: list[Any] = [part if part is None else part.detach().reshape(-1, max(columns, 1)) for part in parts]
    return _Leaf(shape=shape, candidate=tables[0], native=tables[1], oracle=tables[2], condition=tables[3])


def _judge(leaf: _Leaf, precision: str, terms: int) -> Tally:
    tally = Tally(leaf.shape)
    inexact = leaf.native.is_floating_point()
    relative = _roundoff(leaf, precision, terms) if inexact else 0.0
    least = LEAST_SCALE * _table_rms(leaf.oracle) if inexact else 0.0
    for rows in _row_slices(leaf.native):
        units = _row_units(leaf, rows, relative, least) if inexact else None
        for columns in _column_slices(leaf.native):
            candidate, native, oracle = (part[rows, columns] for part in (leaf.candidate, leaf.native, leaf.oracle))
            if units is None:
                right = (candidate == native) | (candidate == oracle)
                tally.count_exact(right, torch.where(right, 0.0, (candidate.double() - oracle.double()).abs()))
            else:
                condition = None if leaf.condition is None else leaf.condition[rows, columns].double()
                block = (candidate.double(), native.double(), oracle.double())
                tally.count(_block_errors(block, condition, units, relative))
    return tally


def _roundoff(leaf: _Leaf, precision: str, terms: int) -> float:
    """Doubled when the oracle is no finer than the reference: then it has errors of the same size."""
    finer = torch.finfo(leaf.oracle.dtype).bits > torch.finfo(leaf.native.dtype).bits
    return roundoff(precision, leaf.native.dtype, terms) * (1 if finer else 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RowUnits:
    """Per row, (rows, 1): the least unit of its elements, and the least size that relative errors refer to."""

    unit: torch.Tensor
    size: torch.Tensor


def _row_units(leaf: _Leaf, rows: slice, relative: float, least: float) -> _RowUnits:
    native, oracle = leaf.native[rows], leaf.oracle[rows]
    scale = _row_rms(oracle)
    reference_error = torch.zeros_like(scale)
    for columns in _column_slices(native):
        difference = native[:, columns].double() - oracle[:, columns].double()
        reference_error = torch.hypot(reference_error, _rms_share(difference, native.shape[1]))
    reach = scale if leaf.condition is None else torch.maximum(scale, _row_rms(leaf.condition[rows]))
    unit = torch.maximum(relative * reach.clamp(min=least), reference_error)
    floor = least_unit(native.dtype)
    return _RowUnits(unit=unit.clamp(min=floor), size=(RELATIVE_FLOOR * scale).clamp(min=floor))


def _block_errors(
    block: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    condition: torch.Tensor | None,
    rows: _RowUnits,
    relative: float,
) -> BlockErrors:
    candidate, native, oracle = block
    if math.isfinite(float(candidate.sum() + native.sum() + oracle.sum())):
        same_kind = torch.ones_like(candidate, dtype=torch.bool)
        error, reference_error, size = (candidate - oracle).abs(), (native - oracle).abs(), oracle.abs()
    else:
        same_kind = _same_kind(candidate, native) | _same_kind(candidate, oracle)
        # Where only one of reference and oracle overflows either is an answer; elsewhere they are alike.
        target = torch.where(oracle.isfinite(), oracle, native)
        finite = candidate.isfinite() & target.isfinite()
        error = torch.where(finite, (candidate - target).abs(), 0.0)
        reference_error = _finite_or_zero(native - oracle).abs()
        size = _finite_or_zero(target).abs()
    reach = size if condition is None else torch.maximum(size, condition)
    unit = torch.maximum(torch.maximum(relative * reach, reference_error), rows.unit)
    return BlockErrors(
        candidate=error,
        reference=reference_error,
        size=torch.maximum(size, rows.size),
        units=error / unit,
        same_kind=same_kind,
    )


def _finite_or_zero(values: torch.Tensor) -> torch.Tensor:
    return torch.where(values.isfinite(), values, 0.0)


def _same_kind(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Both finite, both NaN, or the same infinity."""
    return (a.isfinite() & b.isfinite()) | (a.isnan() & b.isnan()) | (a.isinf() & (a == b))


def _table_rms(table: torch.Tensor) -> float:
    total = 0.0
    for rows in _row_slices(table):
        total = math.hypot(total, float(_rms_share(_row_rms(table[rows]).T, table.shape[0])))
    return total


def _row_rms(rows: torch.Tensor) -> torch.Tensor:
    """Of the finite elements, as if the others were 0: (rows, 1), float64."""
    total = torch.zeros(rows.shape[0], 1, dtype=torch.float64, device=rows.device)
    for columns in _column_slices(rows):
        total = torch.hypot(total, _rms_share(rows[:, columns].double(), rows.shape[1]))
    return total


def _rms_share(block: torch.Tensor, columns: int) -> torch.Tensor:
    """sqrt(sum of squares / columns) of each row's finite elements, (rows, 1), whatever their magnitude."""
    largest = block.abs().amax(dim=1, keepdim=True)
    if not math.isfinite(float(largest.sum())):
        block = _finite_or_zero(block)
        largest = block.abs().amax(dim=1, keepdim=True)
    safe = torch.where(largest > 0, largest, 1.0)
    norm: torch.Tensor = torch.linalg.vector_norm(block / safe, dim=1, keepdim=True)
    return safe * (norm / math.sqrt(columns))


def _row_slices(table: torch.Tensor) -> Iterator[slice]:
    step = max(1, CHUNK_ELEMENTS[table.device.type] // table.shape[1])
    return (slice(start, start + step) for start in range(0, table.shape[0], step))


def _column_slices(table: torch.Tensor) -> Iterator[slice]:
    step = CHUNK_ELEMENTS[table.device.type]
    return (slice(start, start + step) for start in range(0, table.shape[1], step))

"""A quick look at timed outputs: are they so near to the reference's own that they are within its oracle's limits?

The reference's output is within one unit of the oracle's, by the unit's definition (tolerance.py). What is within n of
these of it is within n + 1 of the oracle's, and the same holds for root mean squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from evaluation.correctness.nested import leaves, structure_fault, tensors
from evaluation.correctness.tolerance import ELEMENT_LIMIT, RMS_LIMIT, roundoff
from problems.values import blocks

_ELEMENT_UNITS, _ROW_UNITS = ELEMENT_LIMIT - 2, RMS_LIMIT - 1.1
"""For every element, and for the rms of every row. Units are taken from the reference's rows here, not the oracle's: a
little is left for what that may make."""
_SMALL_ELEMENTS = {"cpu": 2**16, "cuda": 2**20}
"""Outputs up to this size, by device, are compared a block of calls at a time: the comparison's fixed cost is larger
than their share."""


def stacked_close(outputs: Sequence[Any], references: Sequence[Any], precision: str, terms: int) -> bool:
    """Whether all are small tensors that are close together: one comparison where each alone costs as much."""
    first = references[0]
    if type(first) is not torch.Tensor or first.numel() > _SMALL_ELEMENTS[first.device.type] or first.dim() == 0:
        return False
    same = all(type(t) is torch.Tensor and t.shape == first.shape and t.dtype == first.dtype for t in references)
    if not same or any(structure_fault(*pair) is not None for pair in zip(outputs, references, strict=True)):
        return False
    return _tensor_close(torch.stack(list(outputs)), torch.stack(list(references)), precision, terms)


def close(output: Any, reference: Any, precision: str, terms: int) -> bool:
    """Whether every element is within one honest rounding error of the reference's, by the size of its row."""
    if structure_fault(output, reference) is not None:
        return False
    return all(
        _tensor_close(mine, theirs, precision, terms)
        for mine, theirs in zip(tensors(output), tensors(reference), strict=True)
    ) and len(tensors(reference)) == len(list(leaves(reference)))


def _tensor_close(mine: torch.Tensor, theirs: torch.Tensor, precision: str, terms: int) -> bool:
    if not theirs.is_floating_point() or theirs.dim() == 0:
        return torch.equal(mine, theirs)
    # A tensor of one dimension is one row.
    pairs = [(mine, theirs)] if theirs.dim() == 1 else zip(blocks(mine, 0), blocks(theirs, 0), strict=True)
    return all(_rows_close(*pair, roundoff(precision, theirs.dtype, terms)) for pair in pairs)


def _rows_close(mine: torch.Tensor, theirs: torch.Tensor, relative: float) -> bool:
    wide = torch.promote_types(theirs.dtype, torch.float32)
    root = theirs.shape[-1] ** 0.5
    row_rms = torch.linalg.vector_norm(theirs.to(wide), dim=-1, keepdim=True) / root
    units = mine.to(wide).sub(theirs.to(wide)).abs_()
    units /= (relative * row_rms).clamp_(min=torch.finfo(wide).tiny)
    row_units = torch.linalg.vector_norm(units, dim=-1) / root
    return bool((units <= _ELEMENT_UNITS).all() & (row_units <= _ROW_UNITS).all())

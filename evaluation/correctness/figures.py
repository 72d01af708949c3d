"""Errors of one output, added up block by block, and what is said about them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from evaluation.correctness.tolerance import ELEMENT_LIMIT, RMS_LIMIT

RELATIVE_FLOOR = 1e-3
"""Of the row's rms: errors at smaller elements are relative to this, so that a zero does not make them infinite."""
_LARGEST_FIGURE = 1e150
"""Such that squares can still be added up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFigures:
    """Errors against the oracle; finite by construction, since places with NaN or infinity are left out.

    Relative errors refer to max(|oracle|, RELATIVE_FLOOR * rms of its row).
    """

    elements: int = 0
    max_abs_error: float = 0.0
    mean_abs_error: float = 0.0
    max_rel_error: float = 0.0
    mean_rel_error: float = 0.0
    reference_rms_error: float = 0.0
    candidate_rms_error: float = 0.0

    def merge(self, other: ErrorFigures) -> ErrorFigures:
        """Figures over the elements of both."""
        elements = self.elements + other.elements
        share = other.elements / elements if elements else 0.0

        def mean(mine: float, theirs: float) -> float:
            return (1 - share) * mine + share * theirs

        def rms(mine: float, theirs: float) -> float:
            return math.hypot(math.sqrt(1 - share) * mine, math.sqrt(share) * theirs)

        return ErrorFigures(
            elements=elements,
            max_abs_error=max(self.max_abs_error, other.max_abs_error),
            mean_abs_error=mean(self.mean_abs_error, other.mean_abs_error),
            max_rel_error=max(self.max_rel_error, other.max_rel_error),
            mean_rel_error=mean(self.mean_rel_error, other.mean_rel_error),
            reference_rms_error=rms(self.reference_rms_error, other.reference_rms_error),
            candidate_rms_error=rms(self.candidate_rms_error, other.candidate_rms_error),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockErrors:
    """One block of a float output; all tensors are float64 of one shape, but for `same_kind`, which holds bools."""

    candidate: torch.Tensor
    """|candidate - oracle|, 0 where either is NaN or infinite."""
    reference: torch.Tensor
    """|reference - oracle|, likewise."""
    size: torch.Tensor
    """What relative errors refer to; not 0."""
    units: torch.Tensor
    """The candidate's errors in units of an honest kernel's."""
    same_kind: torch.Tensor
    """Whether the candidate is finite, NaN or infinite as it should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mismatch:
    index: int
    error: float
    units: float
    same_kind: bool


class Tally:
    """Adds up the errors of one output of `shape`; blocks are counted in the order of its elements."""

    def __init__(self, shape: torch.Size) -> None:
        self.figures = ErrorFigures()
        self._shape = shape
        self._right = 0
        self._misplaced = 0
        self._unit_norm = 0.0
        self._first: _Mismatch | None = None

    def count_exact(self, right: torch.Tensor, error: torch.Tensor) -> None:
        """A block in which only equality counts: bools, and |difference| as float64 for the figures."""
        nothing = torch.zeros_like(error)
        self._note_first(right, error, torch.full_like(error, math.inf), torch.ones_like(right))
        self._add(right, error, nothing, torch.ones_like(error))

    def count(self, errors: BlockErrors) -> None:
        """A block of floats."""
        right = (errors.units <= ELEMENT_LIMIT) & errors.same_kind
        self._note_first(right, errors.candidate, errors.units, errors.same_kind)
        misplaced, unit_norm = _read((~errors.same_kind).sum(), torch.linalg.vector_norm(errors.units))
        self._misplaced += int(misplaced)
        self._unit_norm = math.hypot(self._unit_norm, unit_norm)
        self._add(right, errors.candidate, errors.reference, errors.size)

    @property
    def rms_units(self) -> float:
        """rms of the errors, in units."""
        return self._unit_norm / math.sqrt(max(self.figures.elements, 1))

    @property
    def passed(self) -> bool:
        """Every element was counted, and is right, and so is their rms."""
        return self._right == self.figures.elements == self._shape.numel() and self.rms_units <= RMS_LIMIT

    def explain(self) -> str:
        """What is wrong, in one bounded sentence without values of the output."""
        elements = self._shape.numel()
        if self._first is None:
            return (
                f"the errors of all {elements} elements are too large together: their rms is {self.rms_units:.3g} "
                f"times what rounding explains (limit {RMS_LIMIT:g}); rms error {self.figures.candidate_rms_error:.2e}"
            )
        at = f"the first at {_position(self._first.index, self._shape)}"
        count = f"{elements - self._right} of {elements} elements are wrong, {at}"
        if not self._first.same_kind:
            return f"{count}: NaN or infinity there differs from the reference's ({self._misplaced} such places)"
        largest = f"largest error {self.figures.max_abs_error:.2e}"
        if math.isinf(self._first.units):
            return f"{count}: must equal the reference's; {largest}"
        allowed = self._first.error / self._first.units * ELEMENT_LIMIT
        return f"{count}: error {self._first.error:.2e} where {allowed:.2e} is allowed; {largest}"

    def _note_first(
        self, right: torch.Tensor, error: torch.Tensor, units: torch.Tensor, same_kind: torch.Tensor
    ) -> None:
        if self._first is not None or bool(right.all()):
            return
        index = int((~right).flatten().int().argmax())
        self._first = _Mismatch(
            index=self.figures.elements + index,
            error=float(error.flatten()[index]),
            units=float(units.flatten()[index]),
            same_kind=bool(same_kind.flatten()[index]),
        )

    def _add(self, right: torch.Tensor, error: torch.Tensor, reference_error: torch.Tensor, size: torch.Tensor) -> None:
        if not right.numel():
            return
        parts = (error, error / size, reference_error)
        error, relative, reference_error = (part.clamp(max=_LARGEST_FIGURE) for part in parts)
        right_count, max_abs, mean_abs, max_rel, mean_rel, reference_norm, candidate_norm = _read(
            right.sum(),
            error.max(),
            error.mean(),
            relative.max(),
            relative.mean(),
            torch.linalg.vector_norm(reference_error),
            torch.linalg.vector_norm(error),
        )
        self._right += int(right_count)
        root = math.sqrt(right.numel())
        self.figures = self.figures.merge(
            ErrorFigures(
                elements=right.numel(),
                max_abs_error=max_abs,
                mean_abs_error=mean_abs,
                max_rel_error=max_rel,
                mean_rel_error=mean_rel,
                reference_rms_error=reference_norm / root,
                candidate_rms_error=candidate_norm / root,
            )
        )


def _read(*figures: torch.Tensor) -> list[float]:
    """Single numbers, counts below 2**53 among them. In one go where each reading would wait for an accelerator."""
    if figures[0].device.type == "cpu":
        return [float(figure) for figure in figures]
    read: list[float] = torch.stack([figure.double() for figure in figures]).tolist()
    return read


def _position(index: int, shape: torch.Size) -> list[int]:
    """Row-major coordinates of flat `index`."""
    coordinates = []
    for size in reversed(shape):
        index, coordinate = divmod(index, size)
        coordinates.append(coordinate)
    return coordinates[::-1]

"""Are two sets of random tensors drawn alike? Statistics of each tensor and of each with the next, compared by mean."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

LIMIT = 8.0
"""Standard errors that two means may lie apart: with 12 and 32 samples by chance less than once in 10**8."""
_LEAST_DEVIATION = 0.1
"""Of a statistic, in multiples of 1 / sqrt(elements). That of independent standardised elements is about 1."""
_MOST_BELIEVED = 8.0
"""Up to this deviation, in the same multiples, the other side's own counts. Of few elements, which are seldom dropped,
one side's samples may all be alike; but a candidate must not hide a difference behind a spread that it made."""
_LEAST_SLICE = 32
"""Elements of a slice whose mean over a few tensors is about normal."""
_CLIP = 3.0
"""Standardised elements are cut here, so that a mean of a few tensors is about normal."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Statistics of some tensors that were drawn one after the other."""

    names: list[str]
    values: torch.Tensor
    """(tensors, statistics), float64, on the CPU."""
    elements: int
    """Of a tensor."""

    @classmethod
    def of(cls, drawn: Sequence[torch.Tensor], *, slices: bool = False) -> Sample:
        """Of standardised tensors of one shape, two at least; the last is followed by the first.

        `slices` adds the mean of every slice along every axis.
        """
        cut = [one.clamp(-_CLIP, _CLIP) for one in drawn]
        rows = [dict(_alone(one)) | dict(_with_next(one, cut[index - 1])) for index, one in enumerate(cut)]
        if slices:
            for row, one in zip(rows, cut, strict=True):
                row |= dict(_slices(one))
        values = torch.tensor([list(row.values()) for row in rows], dtype=torch.float64, device="cpu")
        return cls(list(rows[0]), values, max(cut[0].numel(), 1))

    @property
    def deviation(self) -> torch.Tensor:
        """Of each statistic, over the tensors."""
        return self.values.std(0).clamp(min=_LEAST_DEVIATION / math.sqrt(self.elements))


def differing(candidate: Sample, reference: Sample) -> str | None:
    """The statistic that lies farthest beyond LIMIT of the reference's errors, in words; None when all are alike."""
    believed = candidate.deviation.clamp(max=_MOST_BELIEVED / math.sqrt(reference.elements))
    degrees = [len(reference.values) - 1, len(candidate.values) - 1]
    squares = degrees[0] * reference.deviation.square() + degrees[1] * believed.square()
    error = (squares / sum(degrees) * (1 / len(candidate.values) + 1 / len(reference.values))).sqrt()
    apart = (candidate.values.mean(0) - reference.values.mean(0)).abs() / error
    # NaN is not near.
    worst = int(torch.where(apart.isnan(), math.inf, apart).argmax())
    if apart[worst] <= LIMIT:
        return None
    return f"{reference.names[worst]} differs from the reference's by {float(apart[worst]):.3g} standard errors"


def _alone(x: torch.Tensor) -> Iterator[tuple[str, float]]:
    yield "the mean (or share of elements that are kept)", float(x.mean())
    yield "the variance", float(x.square().mean())
    yield "the skewness", float(x.pow(3).mean())
    yield "the mean size", float(x.abs().mean())
    for axis, size in enumerate(x.shape):
        if size > 1:
            ahead, behind = x.narrow(axis, 1, size - 1), x.narrow(axis, 0, size - 1)
            yield f"the likeness of neighbours along dimension {axis}", float((ahead * behind).mean())
            yield f"the spread of means over dimension {axis}", size * float(x.mean(axis).square().mean())


def _with_next(x: torch.Tensor, other: torch.Tensor) -> Iterator[tuple[str, float]]:
    """Of two calls in succession. A table read from varying places is alike at one of the distances between places."""
    yield "the likeness of two calls", float((x * other).mean())
    one, two = torch.fft.rfft(x.flatten()), torch.fft.rfft(other.flatten())
    alike = torch.fft.irfft(one * two.conj(), n=x.numel())
    yield "the likeness of two calls at other places", float(alike.abs().max()) / x.numel()


def _slices(x: torch.Tensor) -> Iterator[tuple[str, float]]:
    """Of an axis whose slices are large. Divided such that each varies about as much as a mean over all elements."""
    for axis, size in enumerate(x.shape):
        if x.numel() >= _LEAST_SLICE * size and size > 1:
            means = x.movedim(axis, 0).flatten(1).mean(1) / math.sqrt(size)
            for index, mean in enumerate(means.tolist()):
                yield f"the mean at {index} in dimension {axis}", mean

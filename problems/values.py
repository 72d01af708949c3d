"""Value sets: other distributions of the same inputs, which a kernel that honours its contract must also get right.

Only floating tensors are touched; indices, masks and scalars mean what the problem's file says. No set but `shifted`
and `distant` changes a sign or fills a zero; `sparse` and `integer` make new zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import torch

Transform = Callable[[torch.Tensor, Callable[[], float]], torch.Tensor]
"""A block of a tensor in at least single precision, and the rms of the whole tensor -> a new block like the first."""

BLOCK_ELEMENTS = 2**26
"""Of a tensor on an accelerator that are worked on at a time, so that what is made on the way is small beside it."""

SHIFT = (3.0, 10.0)
"""Least and greatest distance from zero of `shifted`, in multiples of the rms."""
DISTANCE = (100.0, 300.0)
"""The same of `distant`. A variance as mean of squares less squared mean loses the square of this in accuracy; a mean
that is subtracted first loses only this itself, which the condition of the problem allows. Measured on rows of 1024 in
fp32, in units of `evaluation.correctness.tolerance` (rms, limit 2): at 100 the one comes to 4 to 160, at 300 to 17 to
400, after the way it adds; two passes, Welford's updates and sums about the first element stay below 1 at any distance.
"""
SPARSE_SHARE = 0.1
"""Share of elements that `sparse` leaves."""
INTEGER_LIMIT = 8.0
"""Largest magnitude in `integer`: sums of 2**24 / 8 such numbers, or of 2**24 / 64 products, are exact in fp32."""
HEAVY_TAIL_SIGMA = 1.5
"""Standard deviation of the logarithm of the factor that each element gets from `heavy_tailed`."""


def apply(value_set: str, inputs: list[Any], generator: torch.Generator) -> None:
    """Rewrite the floating tensors in `inputs` (lists, tuples and dicts are walked) in place.

    Shape, dtype, device and strides stay, and a tensor that is given twice stays one tensor. `value_set` is one of
    `problems.problem.VALUE_SETS`, or one direction of it. All randomness follows from `generator`, which is on the CPU.
    """
    if value_set == "nominal":
        return
    transform = _SETS[value_set](generator)
    seen: set[int] = set()
    for tensor in tensors(inputs):
        if tensor.is_floating_point() and tensor.numel() and id(tensor) not in seen:
            seen.add(id(tensor))
            _rewrite(_distinct_cells(tensor.detach()), transform)


def _rewrite(cells: torch.Tensor, transform: Transform) -> None:
    parts = blocks(cells)
    rms = cache(lambda: _rms(parts))
    limit = torch.finfo(cells.dtype).max
    for part in parts:
        wide = _wide(part)
        changed = transform(wide, rms).clamp_(-limit, limit)
        # An infinity is a mask: it stays what and where it is.
        part.copy_(torch.where(wide.isfinite(), changed, wide))


def _wide(part: torch.Tensor) -> torch.Tensor:
    """At least single precision, so that halves do not overflow on the way; never past what the dtype holds."""
    return part.to(torch.promote_types(part.dtype, torch.float32))


def blocks(tensor: torch.Tensor, axis: int | None = None) -> Sequence[torch.Tensor]:
    """Views that make up `tensor`, cut along `axis` or its longest one: BLOCK_ELEMENTS each; one alone on the CPU.

    On the CPU nothing is cut, so that what is drawn for the whole from one generator stays what it is.
    """
    if tensor.device.type == "cpu" or tensor.numel() <= BLOCK_ELEMENTS:
        return (tensor,)
    if axis is None:
        axis = max(range(tensor.dim()), key=tensor.size)
    return torch.split(tensor, max(1, BLOCK_ELEMENTS * tensor.shape[axis] // tensor.numel()), axis)


def drawing_on(device: torch.device, generator: torch.Generator) -> torch.Generator:
    """For elementwise draws on `device`: `generator` where it is there, else a new one that is seeded from it."""
    if generator.device.type == device.type:
        return generator
    seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
    return torch.Generator(device).manual_seed(seed)


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in a nest of lists, tuples and dicts, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def _distinct_cells(tensor: torch.Tensor) -> torch.Tensor:
    """A view that holds each stored element of an expanded tensor once, so that it can be written to."""
    for axis, stride in enumerate(tensor.stride()):
        if stride == 0:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor


def _rms(parts: Sequence[torch.Tensor]) -> float:
    """Root mean square of the finite elements; 1 where that is zero."""
    rms = _plain_rms(map(_wide, parts))
    if not math.isfinite(rms):
        rms = _plain_rms(_wide(part[part.isfinite()]) for part in parts)
    return rms or 1.0


def _plain_rms(parts: Iterable[torch.Tensor]) -> float:
    elements, norms = 0, []
    for part in parts:
        elements += part.numel()
        norms.append(torch.linalg.vector_norm(part, dtype=torch.float64))
    return math.hypot(*torch.stack(norms).tolist()) / math.sqrt(max(elements, 1))


def _scaled(generator: torch.Generator, sign: int | None = None) -> Transform:
    """Everything times the same one of 1e1, 1e2, 1e3, or of their inverses."""
    sign = sign or _sign(generator)
    factor = 10.0 ** (sign * int(torch.randint(1, 4, (), generator=generator, device=generator.device)))
    return lambda x, _: x * factor


def _shifted(generator: torch.Generator, sign: int | None = None, reach: tuple[float, float] = SHIFT) -> Transform:
    """Every tensor plus the same multiple of its rms, of magnitude `reach`."""
    low, high = reach
    sign = sign or _sign(generator)
    distance = sign * (low + (high - low) * float(torch.rand((), generator=generator, device=generator.device)))
    return lambda x, rms: x + distance * rms()


def _heavy_tailed(generator: torch.Generator) -> Transform:
    """Each element times its own log-normal factor: one in a thousand grows more than a hundredfold."""

    def transform(x: torch.Tensor, _: Callable[[], float]) -> torch.Tensor:
        drawn = torch.randn(x.shape, generator=drawing_on(x.device, generator), device=x.device)
        return x * torch.exp(HEAVY_TAIL_SIGMA * drawn)

    return transform


def _sparse(generator: torch.Generator) -> Transform:
    """Zero but for a random tenth of the elements."""

    def transform(x: torch.Tensor, _: Callable[[], float]) -> torch.Tensor:
        drawn = torch.rand(x.shape, generator=drawing_on(x.device, generator), device=x.device)
        return torch.where(drawn < SPARSE_SHARE, x, torch.zeros_like(x))

    return transform


def _integer(generator: torch.Generator) -> Transform:
    """Whole numbers of rms about 2."""
    del generator
    return lambda x, rms: (x * (2.0 / rms())).round().clamp(-INTEGER_LIMIT, INTEGER_LIMIT)


def _sign(generator: torch.Generator) -> int:
    return int(torch.randint(0, 2, (), generator=generator, device=generator.device)) * 2 - 1


_SETS: dict[str, Callable[[torch.Generator], Transform]] = {
    "scaled": _scaled,
    "scaled_up": partial(_scaled, sign=1),
    "scaled_down": partial(_scaled, sign=-1),
    "shifted": _shifted,
    "shifted_up": partial(_shifted, sign=1),
    "shifted_down": partial(_shifted, sign=-1),
    "distant": partial(_shifted, reach=DISTANCE),
    "heavy_tailed": _heavy_tailed,
    "sparse": _sparse,
    "integer": _integer,
}

"""Weights that a candidate cannot ignore: no parameter keeps a value that makes its part of the module do nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase


def randomise_weights(module: nn.Module, seed: int) -> list[str]:
    """Replace trivial defaults in place, deterministically in `seed`; returns their names in the state.

    Trivial is a float parameter with at most two distinct values (gamma 1, beta 0, an identity matrix), and the
    running statistics of normalisation layers. Zeros become uniform in +-1/2, divided by sqrt(fan-in) where there is
    one; other values keep their sign and half to one and a half times their size. Parameters that the constructor drew
    at random, integer buffers and all other buffers (masks, tables) stay.
    """
    generator = torch.Generator().manual_seed(seed)
    parameters = {name: weight for name, weight in module.named_parameters() if weight.is_floating_point()}
    trivial: dict[str, torch.Tensor] = {name: weight for name, weight in parameters.items() if _is_trivial(weight)}
    for path, part in module.named_modules():
        if isinstance(part, _NormBase):
            statistics = {"running_mean": part.running_mean, "running_var": part.running_var}
            prefix = f"{path}." if path else ""
            trivial |= {prefix + name: value for name, value in statistics.items() if value is not None}
    with torch.no_grad():
        for tensor in trivial.values():
            value = tensor.float().cpu()
            uniform = torch.rand(value.shape, generator=generator)
            fan_in = value.shape[1:].numel() if value.dim() > 1 else 1
            zeros_become = (uniform - 0.5) / math.sqrt(max(fan_in, 1))
            tensor.copy_(torch.where(value == 0, zeros_become, value * (0.5 + uniform)))
    return list(trivial)


def _is_trivial(parameter: torch.Tensor) -> bool:
    if not parameter.numel():
        return False
    low, high = parameter.aminmax()
    return bool(((parameter == low) | (parameter == high)).all())


def unmatched(state: Mapping[str, torch.Tensor], given: Iterable[str]) -> str:
    """What to say to a candidate that has no place for weights that its reference was given."""
    wanted = ", ".join(f"{name} {list(state[name].shape)}" for name in given)
    return (
        "it has no place for weights that the reference was given: declare parameters or buffers of the same names, or "
        f"all of them in the reference's order of shapes; missing are some of {wanted}"
    )

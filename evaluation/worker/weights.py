"""How a candidate's module gets the judge's weights: by name, else by the order of shapes, else as far as it must."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

LOADED, ORDERED, PARTLY, SEEDED = "loaded", "ordered", "partly", "seeded"
RULES = (LOADED, ORDERED, PARTLY, SEEDED)

Weights = dict[str, torch.Tensor]


def hand_over(model: Any, weights: Weights, given: Sequence[str]) -> str:
    """Copy weights into `model` by the first rule that fits; returns it.

    `given` are those that must be handed over, as the model cannot have drawn them itself. `seeded` means that they,
    or all, have no place in it; then nothing is changed.
    """
    if not isinstance(model, nn.Module):
        return SEEDED
    own = model.state_dict()
    rule, places = _match(own, weights, given)
    with torch.no_grad():
        for name, place in places.items():
            own[place].copy_(weights[name])
    return rule


@contextmanager
def handed_over_early(entry_point: Any, weights: Weights) -> Iterator[None]:
    """Inside, a layer or parameter that `entry_point`'s own attribute becomes has its weights from then on, by name.

    So what a constructor derives from its layers (transposed, packed, quantised) is derived from the right weights.
    """
    plain = nn.Module.__setattr__

    def set_attribute(self: nn.Module, name: str, value: Any) -> None:
        plain(self, name, value)
        if isinstance(entry_point, type) and type(self) is entry_point and isinstance(value, (nn.Module, nn.Parameter)):
            own = {name: value} if isinstance(value, nn.Parameter) else _prefixed(value.state_dict(), name)
            with torch.no_grad():
                for key, tensor in own.items():
                    if key in weights and tensor.shape == weights[key].shape:
                        tensor.copy_(weights[key])

    nn.Module.__setattr__ = set_attribute  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.__setattr__ = plain  # type: ignore[method-assign]


def _prefixed(state: Weights, name: str) -> Weights:
    return {f"{name}.{key}": value for key, value in state.items()}


def _match(own: Weights, weights: Weights, given: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The rule, and for each weight that is handed over the name of its place."""
    if own.keys() == weights.keys() and all(own[name].shape == weights[name].shape for name in own):
        return LOADED, {name: name for name in own}
    if own and [value.shape for value in own.values()] == [value.shape for value in weights.values()]:
        return ORDERED, dict(zip(weights, own, strict=True))
    places = {name: name for name in given if name in own and own[name].shape == weights[name].shape}
    free = [name for name in own if name not in weights]
    for shape in {weights[name].shape for name in given if name not in places}:
        wanted = [name for name in given if name not in places and weights[name].shape == shape]
        fitting = [name for name in free if own[name].shape == shape]
        if len(wanted) != len(fitting):
            return SEEDED, {}
        places |= dict(zip(wanted, fitting, strict=True))
    return (PARTLY, places) if places else (SEEDED, {})

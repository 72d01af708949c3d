"""Nests of lists, tuples and dicts with tensors at their leaves: what a reference takes and returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Foreign:
    """Stands for a value of a candidate that may not be carried to the judge, such as a subclass of torch.Tensor."""

    type_name: str


def leaves(nest: Any, where: str = "output") -> Iterator[tuple[str, Any]]:
    """Every leaf with its place in words, `output[0]['mask']`, in order."""
    if isinstance(nest, dict):
        for key, item in nest.items():
            yield from leaves(item, f"{where}[{key!r}]")
    elif isinstance(nest, (list, tuple)):
        for index, item in enumerate(nest):
            yield from leaves(item, f"{where}[{index}]")
    else:
        yield where, nest


def map_tensors(function: Callable[[torch.Tensor], Any], nest: Any) -> Any:
    """The same nest with `function` applied to its tensors. Named tuples become plain ones; other leaves stay."""
    if isinstance(nest, dict):
        return {key: map_tensors(function, item) for key, item in nest.items()}
    if isinstance(nest, tuple):
        return tuple(map_tensors(function, item) for item in nest)
    if isinstance(nest, list):
        return [map_tensors(function, item) for item in nest]
    return function(nest) if isinstance(nest, torch.Tensor) else nest


def tensors(nest: Any) -> list[torch.Tensor]:
    """The tensors among the leaves, in order."""
    return [leaf for _, leaf in leaves(nest) if isinstance(leaf, torch.Tensor)]


def structure_fault(candidate: Any, reference: Any, where: str = "output") -> str | None:
    """The first way in which `candidate` is built otherwise than `reference`, as one sentence; None when there is none.

    A tuple is no list, a subclass of Tensor is no Tensor, and dtype, shape, layout and device count. Values do not.
    """
    for kind in (dict, tuple, list):
        if isinstance(reference, kind):
            return _container_fault(candidate, reference, kind, where)
    if not isinstance(reference, torch.Tensor):
        return None if type(candidate) is type(reference) else _differs(where, "type", candidate, reference)
    if type(candidate) is not torch.Tensor:
        return f"{where} must be a torch.Tensor, not {_kind(candidate)}"
    for name in ("dtype", "shape", "layout"):
        ours, theirs = getattr(reference, name), getattr(candidate, name)
        if ours != theirs:
            return f"{where} has {name} {_plain(theirs)}; the reference has {_plain(ours)}"
    if candidate.device.type != reference.device.type:
        return f"{where} is on the device {candidate.device.type}; the reference's is on {reference.device.type}"
    return None


def _container_fault(candidate: Any, reference: Any, kind: Any, where: str) -> str | None:
    if not isinstance(candidate, kind):
        return _differs(where, "type", candidate, reference)
    if len(candidate) != len(reference):
        return f"{where} has {len(candidate)} items; the reference has {len(reference)}"
    if isinstance(reference, dict):
        if list(candidate) != list(reference):
            return f"{where} has other keys, or another order of keys, than the reference"
        pairs = [(f"{where}[{key!r}]", candidate[key], reference[key]) for key in reference]
    else:
        pairs = [(f"{where}[{i}]", *both) for i, both in enumerate(zip(candidate, reference, strict=True))]
    faults = (structure_fault(theirs, ours, place) for place, theirs, ours in pairs)
    return next((fault for fault in faults if fault is not None), None)


def _differs(where: str, what: str, candidate: Any, reference: Any) -> str:
    return f"{where} has {what} {_kind(candidate)}; the reference has {_kind(reference)}"


def _kind(value: Any) -> str:
    if isinstance(value, Foreign):
        return value.type_name[:60]
    for kind in (tuple, list, dict):
        if isinstance(value, kind):
            return kind.__name__
    return value.type_name if isinstance(value, Foreign) else type(value).__name__[:60]


def _plain(value: Any) -> str:
    return str(list(value)) if isinstance(value, torch.Size) else str(value)

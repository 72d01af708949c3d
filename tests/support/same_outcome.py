"""What a call did, and whether another call did the same to the bit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch


def outcome_of(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The result, the arguments as the call left them and the warnings; or the error."""
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        try:
            result = function(*arguments)
        except TypeError as error:
            return (type(error),)  # the words of a refused call are each binding's own
        except Exception as error:  # noqa: BLE001
            return (type(error), str(error))
    return (result, arguments, [(warning.category, str(warning.message)) for warning in raised])


def assert_same(one: Any, other: Any) -> None:
    """Types, values, and of tensors everything that a caller can see."""
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        described = [
            (t.dtype, t.device, t.shape, t.stride(), t.storage_offset(), t.requires_grad) for t in (one, other)
        ]
        assert described[0] == described[1]
        assert torch.equal(one.detach(), other.detach())
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    else:
        assert one == other

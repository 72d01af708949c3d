"""One lock-step exchange: the inputs of one call, encoded once for every arm that makes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from evaluation.worker import codec
from evaluation.worker.buffers import Region, payload_bytes


@dataclass(frozen=True, slots=True)
class Ticket:
    """Its bytes go to each arm as they are, so that no arm's inputs are made in another way than the other's."""

    inputs: list[Any]
    """The arguments of the call."""
    described: bytes
    """The inputs as the codec says them."""
    staged: memoryview
    """Their tensors, one after the other, as bytes; between them zeros, never what the judge's memory held."""

    @classmethod
    def of(cls, inputs: list[Any]) -> Ticket:
        """Encode the inputs. Raises NotCarried if one is of a type that cannot be handed over."""
        staged = torch.zeros(payload_bytes(inputs), dtype=torch.uint8)
        described = codec.encode(inputs, Region(staged, 0, staged.nbytes), strict=True)
        return cls(inputs, described, staged.numpy().data)

"""One lock-step exchange: the inputs of one call, encoded once for every arm that makes it."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from evaluation.device.memory import out_of_the_way
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
    """For calls on the CPU: their tensors, one after the other, as bytes; between them zeros, never what the judge's
    memory held. Empty elsewhere."""
    apart: torch.Tensor
    """The same for calls on a device, out of the way as `evaluation.device.memory` has it; empty elsewhere."""

    @classmethod
    def of(cls, inputs: list[Any], device: str = "cpu") -> Ticket:
        """Encode the inputs. Raises NotCarried if one is of a type, or on a device, that cannot be handed over."""
        flat = torch.zeros(payload_bytes(inputs), dtype=torch.uint8, device=device)
        described = codec.encode(inputs, Region(flat, 0, flat.nbytes), strict=True)
        if device == "cpu":
            return cls(inputs, described, flat.numpy().data, flat[:0])
        return cls(inputs, described, memoryview(b""), out_of_the_way(flat))


def announced(tickets: Sequence[Ticket]) -> Iterator[tuple[Ticket, bytes]]:
    """With each ticket what its question says: the first of a layout announces how many there are, the others nothing.

    The worker is spared the reading of what it knows, in the time that it is charged for.
    """
    for described, alike in itertools.groupby(tickets, lambda ticket: ticket.described):
        group = list(alike)
        yield group[0], struct.pack("<I", len(group)) + described
        yield from ((ticket, b"") for ticket in group[1:])

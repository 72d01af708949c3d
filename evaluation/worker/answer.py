"""The answer of most calls: one tensor, laid out as the one before. Read without being parsed anew."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import torch

from evaluation.correctness.nested import Foreign
from evaluation.worker import codec, wire
from evaluation.worker.buffers import Source

_PLACE_AT = wire.HEADER.size + codec.PLACE_AT
_U64 = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class OneTensor:
    """A whole answer that names one tensor, but for its ticket and the tensor's place."""

    before_ticket: bytes
    between: bytes
    after_place: bytes
    layout: codec.Layout

    @classmethod
    def of(cls, answer: bytes) -> OneTensor | None:
        """What a whole, decoded answer has in common with the next ones; None when it is not one tensor."""
        whole = wire.is_whole(answer, (wire.Kind.DONE,))
        layout = codec.layout_of(answer[wire.HEADER.size :]) if whole else None
        if layout is None:
            return None
        return cls(
            before_ticket=answer[: wire.TICKET_AT],
            between=answer[wire.TICKET_AT + 8 : _PLACE_AT],
            after_place=answer[_PLACE_AT + 8 :],
            layout=layout,
        )

    def fits(self, answer: bytes, ticket: int) -> bool:
        """Whether this is the answer to that ticket, laid out like this."""
        return (
            answer[_PLACE_AT + 8 :] == self.after_place
            and answer[wire.TICKET_AT + 8 : _PLACE_AT] == self.between
            and answer[: wire.TICKET_AT] == self.before_ticket
            and _U64.unpack_from(answer, wire.TICKET_AT)[0] == ticket
        )

    def tensor(self, answer: bytes, source: Source) -> torch.Tensor | Foreign:
        """The tensor that it names. Raises WireError when there is none."""
        return self.layout.tensor(source, _U64.unpack_from(answer, _PLACE_AT)[0])

"""A fresh process of each arm, whose turns alternate."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from evaluation.worker.ticket import Ticket

Batch = list[list[Any]]
Check = Callable[[Batch, Sequence[Any], Sequence[Any]], None]
"""Gets inputs, the reference arm's outputs and the candidate's, one each per call; raises when one is wrong."""

AnyArm = TypeVar("AnyArm")
T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Pair(Generic[AnyArm]):
    """What blocks of reference and candidate are made with: B C, C B, B C, ..."""

    reference: AnyArm
    candidate: AnyArm
    next_batch: Callable[[int], Batch]
    check: Check
    tickets: list[Ticket] = field(default_factory=list)
    """Of the last block."""
    started: float = field(default_factory=time.monotonic)
    calls: int = 0
    candidate_first: bool = field(default_factory=lambda: secrets.randbelow(2) == 1)

    def new_batch(self, calls: int, device: str) -> Batch:
        """Inputs that were never used before, as tickets too; the order of turns changes."""
        batch = self.next_batch(calls)
        self.tickets = [Ticket.of(inputs, device) for inputs in batch]
        self.candidate_first = not self.candidate_first
        return batch

    def in_turn(self, act: Callable[[AnyArm], T]) -> tuple[T, T]:
        """What `act` gives for the reference's arm and the candidate's, in the order of their turns."""
        if self.candidate_first:
            theirs, ours = act(self.candidate), act(self.reference)
        else:
            ours, theirs = act(self.reference), act(self.candidate)
        return ours, theirs

"""One page of host memory that judge, worker and device share: tickets of gates and marks, a word on a line each.

The words only ever hold ticket numbers. What a candidate writes here can hold up or let go its own calls alone, and
the judge's clock runs until it holds the output itself.
"""

from __future__ import annotations

import mmap
import os
from typing import BinaryIO

import numpy as np

_LINE_BYTES = 128
_OPEN, _FINISHED, _EXPIRED = 0, 2, 3
"""Lines, as in harness.cu."""
_EVER = 0x3FFFFFFF
"""Ahead of every ticket that is counted up to from it."""


class Page:
    """The judge's view."""

    def __init__(self, descriptor: int) -> None:
        """Map a page made by `create`; the descriptor stays the caller's."""
        self._mapped = mmap.mmap(descriptor, mmap.PAGESIZE)
        self._words = np.frombuffer(self._mapped, dtype=np.uint32)[:: _LINE_BYTES // 4]

    @staticmethod
    def create() -> BinaryIO:
        """A zeroed page."""
        descriptor = os.memfd_create("kernelsweep-page", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, mmap.PAGESIZE)
        return os.fdopen(descriptor, "r+b", buffering=0)

    def close_gate(self, ticket: int) -> None:
        """Have this ticket's call wait."""
        self._words[_OPEN] = ticket - 1

    def open_gate(self, ticket: int) -> None:
        """Let this ticket's call go."""
        self._words[_OPEN] = ticket

    def leave_open(self, ticket: int) -> None:
        """Let every call from this ticket on go as soon as it is queued."""
        self._words[_OPEN] = (ticket + _EVER) & 0xFFFFFFFF

    def finished(self, ticket: int) -> bool:
        """Whether the device has come to this ticket's mark."""
        return bool(self._words[_FINISHED] == ticket)

    def expired(self, ticket: int) -> bool:
        """Whether this ticket's gate gave up waiting for the judge."""
        return bool(self._words[_EXPIRED] == ticket)

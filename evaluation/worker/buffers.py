"""Where the tensors of a message lie: in memory that judge and worker both map, or in the worker's own.

Inputs cross in a sealed memfd, seen as a flat byte tensor. Outputs stay where the candidate left them, and the judge
reads them there: so nothing that the candidate's process does beside its call is part of an output's way.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import BinaryIO, Protocol

import torch

from evaluation.worker.wire import WireError

_ALIGNMENT = 512
"""Of a tensor in a buffer: what torch's own allocator on CUDA gives, so that vector loads and tensor maps fit."""
_MOST_READ_BYTES = 2**30
_FEW_BYTES = 2**14
"""Up to here a copy to compare costs less than torch's own way, which compares words."""
_SEALS = 0x1 | 0x2 | 0x4
"""F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW: a worker that cut the file short could crash the judge that reads it."""
_ADD_SEALS = 1033


class RegionFull(Exception):
    """A value does not fit where it should go."""


class Target(Protocol):
    """Where tensors are put, so that the other side finds them."""

    @property
    def device_type(self) -> str:
        """Of the tensors that it takes."""
        ...

    def put(self, flat: torch.Tensor) -> int:
        """Have a dense one-dimensional tensor lie there; returns what the other side finds it by."""
        ...


class Source(Protocol):
    """Where the other side's tensors are."""

    @property
    def device_type(self) -> str:
        """Of the tensors that it gives."""
        ...

    def take(self, place: int, elements: int, dtype: torch.dtype) -> torch.Tensor:
        """The one-dimensional tensor at `place`. Raises WireError where there is none."""
        ...


class InPlace:
    """A target that leaves every tensor where it is, and alive as long as itself: its place is its address."""

    device_type = "cpu"

    def __init__(self) -> None:
        self._kept: list[torch.Tensor] = []

    def put(self, flat: torch.Tensor) -> int:
        """See Target."""
        self._kept.append(flat)
        return flat.data_ptr()


class ProcessMemory:
    """A source that copies from another process's memory, at most `most_bytes` in all."""

    device_type = "cpu"

    def __init__(self, memory_fd: int, most_bytes: int) -> None:
        self._memory_fd = memory_fd
        self._left = most_bytes

    def take(self, place: int, elements: int, dtype: torch.dtype) -> torch.Tensor:
        """See Source; raises RegionFull too. A bool's byte beside 0 and 1, which is undefined behaviour, becomes 1."""
        self._left -= elements * dtype.itemsize
        if self._left < 0:
            raise RegionFull
        copied = torch.empty(elements * dtype.itemsize, dtype=torch.uint8)
        waiting: memoryview = copied.numpy().data
        while waiting:
            try:
                count = os.preadv(self._memory_fd, [waiting[:_MOST_READ_BYTES]], place)
            except (OSError, OverflowError) as error:
                raise WireError("a tensor lies where the process has no memory") from error
            if count == 0:
                raise WireError("a tensor lies in a process that is not there any more")
            waiting, place = waiting[count:], place + count
        return copied.ne(0) if dtype is torch.bool else copied.view(dtype)


class Region:
    """A flat stretch of a shared buffer that fills from its start: target and source of one call's inputs."""

    def __init__(self, flat: torch.Tensor, start: int, end: int) -> None:
        self._flat = flat
        self._start = start
        self._next = start
        self._end = end

    @property
    def device_type(self) -> str:
        """See Target."""
        return self._flat.device.type

    def put(self, flat: torch.Tensor) -> int:
        """Copy it behind the others; its place is its offset in the buffer. Raises RegionFull."""
        offset = self._next
        if offset + flat.nbytes > self._end:
            raise RegionFull
        self._next = offset + aligned(flat.nbytes)
        self.take(offset, flat.numel(), flat.dtype).copy_(flat)
        return offset

    def take(self, place: int, elements: int, dtype: torch.dtype) -> torch.Tensor:
        """See Source; no copy."""
        count = elements * dtype.itemsize
        if place % _ALIGNMENT or place < self._start or place + count > self._end:
            raise WireError("a tensor lies outside its buffer")
        return self._flat[place : place + count].view(dtype)


class SharedBuffer:
    """A mapped memfd of fixed size."""

    def __init__(self, descriptor: int) -> None:
        """Map a memfd that was made by `SharedBuffer.create`; the descriptor stays the caller's."""
        self.size = os.fstat(descriptor).st_size
        mapped = mmap.mmap(descriptor, self.size)
        self._bytes = memoryview(mapped)
        self._flat = torch.frombuffer(mapped, dtype=torch.uint8)

    @staticmethod
    def create(size: int) -> BinaryIO:
        """Make a zeroed memfd of at least `size` bytes that cannot change its size."""
        descriptor = os.memfd_create("kernelsweep", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, max(aligned(size), mmap.PAGESIZE))
        fcntl.fcntl(descriptor, _ADD_SEALS, _SEALS)
        return os.fdopen(descriptor, "r+b", buffering=0)

    def region(self, start: int, size: int) -> Region:
        """The bytes [start, start + size). Raises WireError outside the buffer."""
        if start < 0 or size < 0 or start + size > self.size:
            raise WireError("a region lies outside its buffer")
        return Region(self._flat, start, start + size)

    def fill(self, staged: memoryview) -> None:
        """Begin with these bytes."""
        self._bytes[: len(staged)] = staged

    def holds(self, staged: memoryview) -> bool:
        """Whether the buffer still begins with these bytes, a multiple of 8."""
        if len(staged) <= _FEW_BYTES:
            return bytes(self._bytes[: len(staged)]) == bytes(staged)
        theirs = torch.frombuffer(staged, dtype=torch.int64)
        return torch.equal(self._flat[: len(staged)].view(torch.int64), theirs)


def aligned(count: int) -> int:
    """`count` rounded up to where the next tensor may begin."""
    return -(-count // _ALIGNMENT) * _ALIGNMENT


def payload_bytes(value: object) -> int:
    """Bytes that the tensors of a nested value need in a region, at most."""
    if isinstance(value, torch.Tensor):
        return aligned(value.numel() * value.element_size())
    if isinstance(value, dict):
        return sum(payload_bytes(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return sum(payload_bytes(item) for item in value)
    return 0

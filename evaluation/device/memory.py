"""Device memory that judge and worker share: made by the judge, passed as a file descriptor, seen as a flat tensor.

CUDA's older handles for this (cudaIpc*, which torch.multiprocessing uses) do not open in a sandbox; descriptors do.
"""

from __future__ import annotations

import ctypes
import functools
import os
from contextlib import ExitStack
from typing import Any

import torch

from evaluation.errors import EvaluatorError
from evaluation.worker.buffers import Region, RegionFull
from evaluation.worker.wire import WireError

_OUT_OF_MEMORY = 2
_PINNED, _POSIX_DESCRIPTOR, _ON_DEVICE, _READ_WRITE = 1, 1, 1, 3
_BY_HOST_BYTES = 4 * 2**20
POISON = 0xFF
"""Byte that outputs are filled with: NaN in every floating type, -1 in whole numbers."""


class DeviceMemoryError(EvaluatorError):
    """The driver refused to make, pass or map memory; the text says which step."""


class DeviceFull(DeviceMemoryError):
    """There is not so much memory left."""


def staged(flat: torch.Tensor) -> torch.Tensor:
    """A copy of bytes on the device, from where they get into a buffer, and out of it, without the device noticing.

    Little data is kept in page-locked memory of the host: its copy engines work beside another process's kernels. A
    copy within the device makes it change from one process to the other, which empties the caches of instructions: an
    operator of torch on 28 KB was seen to take 1.7 us more.
    """
    kept = out_of_the_way(flat)
    return kept.clone() if kept is flat else kept


def out_of_the_way(flat: torch.Tensor) -> torch.Tensor:
    """The same of bytes that nobody else changes: much data stays where it is."""
    if flat.numel() > _BY_HOST_BYTES:
        return flat
    return torch.empty(flat.shape, dtype=flat.dtype, pin_memory=True).copy_(flat, non_blocking=True)


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class DeviceBuffer:
    """A mapped stretch of device memory of fixed size, on the current device."""

    def __init__(self, handle: int, size: int) -> None:
        """Map `handle`, an allocation of `size` bytes, and give it up: the mapping keeps the memory."""
        self.size = size
        address = ctypes.c_uint64()
        with ExitStack() as undone, ExitStack() as given_up:
            given_up.callback(_call, "cuMemRelease", ctypes.c_uint64(handle))
            _call("cuMemAddressReserve", ctypes.byref(address), _size(size), _size(0), ctypes.c_uint64(0), _flags())
            undone.callback(_call, "cuMemAddressFree", address, _size(size))
            _call("cuMemMap", address, _size(size), _size(0), ctypes.c_uint64(handle), _flags())
            undone.callback(_call, "cuMemUnmap", address, _size(size))
            access = _Access(_Location(_ON_DEVICE, torch.cuda.current_device()), _READ_WRITE)
            _call("cuMemSetAccess", address, _size(size), ctypes.byref(access), _size(1))
            self._address = address.value
            self.flat = torch.as_tensor(_Array(self._address, size), device="cuda")
            undone.pop_all()

    @classmethod
    def create(cls, size: int) -> tuple[DeviceBuffer, int]:
        """At least `size` bytes, and a descriptor for the other process, which the caller closes."""
        properties = _Properties(
            type=_PINNED,
            handle_types=_POSIX_DESCRIPTOR,
            location=_Location(_ON_DEVICE, torch.cuda.current_device()),
        )
        grain = ctypes.c_size_t()
        _call("cuMemGetAllocationGranularity", ctypes.byref(grain), ctypes.byref(properties), ctypes.c_int(0))
        size = max(-(-size // grain.value), 1) * grain.value
        handle = ctypes.c_uint64()
        _call("cuMemCreate", ctypes.byref(handle), _size(size), ctypes.byref(properties), _flags())
        descriptor = ctypes.c_int(-1)
        kind = ctypes.c_int(_POSIX_DESCRIPTOR)
        try:
            _call("cuMemExportToShareableHandle", ctypes.byref(descriptor), handle, kind, _flags())
        except DeviceMemoryError:
            _call("cuMemRelease", handle)
            raise
        try:
            return cls(handle.value, size), descriptor.value
        except Exception:
            os.close(descriptor.value)
            raise

    @classmethod
    def receive(cls, descriptor: int, size: int) -> DeviceBuffer:
        """The other process's memory; closes the descriptor."""
        handle = ctypes.c_uint64()
        kind = ctypes.c_int(_POSIX_DESCRIPTOR)
        try:
            _call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(descriptor), kind)
        finally:
            os.close(descriptor)
        return cls(handle.value, size)

    def region(self) -> Region:
        """All of it, to be filled from its start."""
        return Region(self.flat, 0, self.size)

    def fill(self, data: torch.Tensor) -> None:
        """Begin with these bytes, which `staged` gave. Returns before that is done."""
        self.flat[: data.numel()].copy_(data, non_blocking=True)

    def begins(self, count: int) -> torch.Tensor:
        """A copy of the first `count` bytes, as `staged` makes it."""
        return staged(self.flat[:count])

    def close(self) -> None:
        """Unmap it. No tensor that lies in it may be used afterwards."""
        torch.cuda.synchronize()
        del self.flat
        _call("cuMemUnmap", ctypes.c_uint64(self._address), _size(self.size))
        _call("cuMemAddressFree", ctypes.c_uint64(self._address), _size(self.size))


class Copies:
    """A source of copies from a buffer, at most `most_bytes` in all, as `staged` makes them."""

    def __init__(self, flat: torch.Tensor, most_bytes: int) -> None:
        self._flat = flat
        self._left = most_bytes

    @property
    def device_type(self) -> str:
        """See Source: of the tensors without elements; others may be on the host."""
        return self._flat.device.type

    def take(self, place: int, elements: int, dtype: torch.dtype) -> torch.Tensor:
        """See Source; raises RegionFull too. A bool's byte beside 0 and 1, which is undefined behaviour, becomes 1.

        But for bools the copy may still be under way.
        """
        count = elements * dtype.itemsize
        self._left -= count
        if self._left < 0:
            raise RegionFull
        if place % dtype.itemsize or place + count > self._flat.numel():
            raise WireError("a tensor lies outside its buffer")
        there = self._flat[place : place + count]
        copied = staged(there)
        if dtype is not torch.bool:
            return copied.view(dtype)
        torch.cuda.synchronize()
        return copied.ne(0)


class _Array:
    """What torch takes for an array on the device."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


@functools.cache
def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def _call(name: str, *arguments: Any) -> None:
    code = getattr(_driver(), name)(*arguments)
    if code:
        text = ctypes.c_char_p()
        _driver().cuGetErrorName(ctypes.c_int(code), ctypes.byref(text))
        error = DeviceFull if code == _OUT_OF_MEMORY else DeviceMemoryError
        raise error(f"{name}: {(text.value or b'an unknown error').decode()}")


def _size(count: int) -> ctypes.c_size_t:
    return ctypes.c_size_t(count)


def _flags() -> ctypes.c_ulonglong:
    return ctypes.c_ulonglong(0)

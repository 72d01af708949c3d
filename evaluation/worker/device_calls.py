"""The worker's side of calls on a CUDA device. Untrusted, like all that runs in the candidate's process."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Callable
from typing import Any

import torch

from evaluation.correctness.nested import Foreign
from evaluation.device.harness import Harness
from evaluation.device.memory import DeviceBuffer
from evaluation.worker.buffers import RegionFull
from evaluation.worker.codec import decode, encode
from evaluation.worker.wire import Frame, Kind

MAP_LAYOUT = struct.Struct("<QQ")
"""Payload of MAP_DEVICE: bytes of the inputs' and of the outputs' buffer, whose descriptors come in this order."""
CALL_LAYOUT = struct.Struct("<III")
"""Head of a call's payload: number of the gate, slot of the span, whether a description of the inputs follows."""
COUNT_LAYOUT = struct.Struct("<I")
"""Payload of SPANS: how many."""

Model = Callable[..., Any]


class DeviceCalls:
    """Everything is allocated and resolved when this is made, before there is a candidate."""

    def __init__(self, harness: Harness, page_fd: int) -> None:
        import torch.utils.cpp_extension

        torch.zeros(1, device="cuda")
        # Torch's own default permits it in convolutions.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        self._harness = harness
        self._page = mmap.mmap(page_fd, mmap.PAGESIZE)
        harness.open(self._page)
        self._stream = torch.cuda.default_stream()
        self._last_error = _error_reader()
        self._inputs: DeviceBuffer | None = None
        self._outputs: DeviceBuffer | None = None
        self._arguments: list[Any] = []
        self._output: Any = None

    def map(self, frame: Frame) -> None:
        """Take the buffers that the next frames speak of; the old ones are left mapped, as outputs may be views.

        Raises DeviceFull when the device has no memory left to map them.
        """
        sizes = MAP_LAYOUT.unpack(frame.payload)
        inputs_fd, outputs_fd = frame.descriptors
        self._inputs = DeviceBuffer.receive(inputs_fd, sizes[0])
        self._outputs = DeviceBuffer.receive(outputs_fd, sizes[1])

    def answer(self, frame: Frame, model: Model) -> bytes:
        """Make the call, or for an echo none; returns where the output lies in the buffer, once all of it is queued."""
        assert self._inputs is not None
        number, slot, described = CALL_LAYOUT.unpack_from(frame.payload)
        if described:
            self._arguments = decode(frame.payload[CALL_LAYOUT.size :], self._inputs.region())
        with torch.no_grad(), torch.cuda.stream(self._stream):
            if frame.kind in (Kind.GATED, Kind.GATED_ECHO):
                return self._gated(number, slot, model if frame.kind is Kind.GATED else None)
            return self._plain(model if frame.kind is Kind.RUN else None)

    def spans(self, frame: Frame) -> bytes:
        """Microseconds of the first spans: until the entry stream, and until every stream was done."""
        (count,) = COUNT_LAYOUT.unpack(frame.payload)
        return encode([value for span in self._harness.spans_us(count) for value in span])

    def settle(self) -> None:
        """Wait for the device; what went wrong on it is raised here."""
        self._harness.wait()

    def _gated(self, number: int, slot: int, model: Model | None) -> bytes:
        arguments = self._own_arguments()
        self._last_error()  # what somebody else left
        self._harness.begin(number, slot)
        if model is None:
            self._harness.nothing()
        else:
            self._output = model(*arguments)
        self._harness.end(slot)
        description = self._handed_over()
        self._harness.mark(number)
        self._check_launches()
        return description

    def _plain(self, model: Model | None) -> bytes:
        arguments = self._own_arguments()
        self._last_error()
        self._harness.flush()
        self._harness.wait()
        if model is not None:
            self._output = model(*arguments)
        description = self._handed_over()
        self._harness.wait()
        self._check_launches()
        return description

    def _own_arguments(self) -> list[Any]:
        """Tensor objects of their own on the same memory: a change of shape must not reach the next call."""
        return [value.detach() if type(value) is torch.Tensor else value for value in self._arguments]

    def _handed_over(self) -> bytes:
        """Queue copies of the output's tensors into the judge's buffer.

        In the stream that the mark is in, whichever one the candidate has left as the current.
        """
        assert self._outputs is not None
        try:
            with torch.cuda.stream(self._stream):
                return encode(self._output, self._outputs.region())
        except RegionFull:
            return encode(Foreign("something larger than the reference's output"))

    def _check_launches(self) -> None:
        """A launch that CUDA refused is an error, also where the candidate did not look."""
        code = self._last_error()
        if code:
            error = torch.cuda.CudaError(code)
            raise RuntimeError(f"a kernel could not be launched: {error}")


def _error_reader() -> Callable[[], int]:
    """cudaGetLastError of the CUDA runtime that torch, and with it every extension, is linked with."""
    version = (torch.version.cuda or "").split(".")[0]
    runtime = ctypes.CDLL(f"libcudart.so.{version}", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    reader: Callable[[], int] = runtime.cudaGetLastError
    return reader

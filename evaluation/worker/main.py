"""What runs in the candidate's process: load a module, construct its class, run tickets, say what went wrong.

Nothing here is trusted by the judge: the candidate shares this process and may change any of it.
"""

from __future__ import annotations

import copy
import importlib.util
import os
import shutil
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import torch

from evaluation.building.request import BuildReply, BuildRequest
from evaluation.building.shim import install
from evaluation.device.memory import DeviceFull
from evaluation.profile.measured import answered
from evaluation.serialize import from_plain, to_plain
from evaluation.worker import weights
from evaluation.worker.buffers import InPlace, SharedBuffer
from evaluation.worker.codec import PLACE_AT, decode, encode
from evaluation.worker.device_calls import DeviceCalls
from evaluation.worker.wire import HEADER, MAGIC, TICKET_AT, Closed, Frame, Kind, receive, send

SOURCE_FILE = "solution.py"
_PLACE, _TICKET = struct.Struct("<Q"), struct.Struct("<Q")
_PLACE_AT = HEADER.size + PLACE_AT
_MAX_MESSAGE_CHARS = 2000
_MAX_TRACEBACK_CHARS = 20_000
_Handlers = dict[Kind, Callable[[Frame], None]]


def serve(sock: socket.socket, home: Path, device: DeviceCalls | None = None) -> None:
    """Answer the judge until it closes the socket; `home` is the one folder that may be written to.

    `device` makes the calls where they are made on a device.
    """
    worker = _Worker(sock, home, device)
    send(sock, Frame(Kind.HELLO, 0))
    handlers = worker.handlers()
    try:
        while True:
            frame = receive(sock, tuple(handlers), accept_descriptors=True)
            worker.ticket = frame.ticket
            with _Reported(sock, worker):
                handlers[frame.kind](frame)
    except Closed:
        return


class _EntryPointMissing(Exception):
    """The module loaded but does not define the class that was asked for."""


class _Worker:
    def __init__(self, sock: socket.socket, home: Path, device: DeviceCalls | None) -> None:
        self.ticket = 0
        """Of the question that is being answered."""
        self._sock = sock
        self._home = home
        self._device = device
        self._entry_point = ""
        self._module: ModuleType | None = None
        self._model: Any = None
        self._inputs: SharedBuffer | None = None
        self._layout = b""
        self._arguments: list[Any] = []
        self._answer = _Answer(None)

    def handlers(self) -> _Handlers:
        """What is done for each question."""
        always: _Handlers = {Kind.LOAD: self.load, Kind.MAP: self.map, Kind.CONSTRUCT: self.construct}
        if self._device is None:
            return always | {Kind.RUN: self.run, Kind.REHEARSE: self.run, Kind.ECHO: self.run}
        calls: _Handlers = {kind: self.run_on_device for kind in (Kind.RUN, Kind.ECHO, Kind.GATED, Kind.GATED_ECHO)}
        rest: _Handlers = {Kind.MAP_DEVICE: self.map_on_device, Kind.SPANS: self.say_spans, Kind.SETTLE: self.settle}
        return always | calls | rest | {Kind.PROFILE: self.profile}

    def load(self, frame: Frame) -> None:
        """Import the candidate's source as a module, from a file so that inspect.getsource works on it."""
        order = decode(frame.payload)
        install(lambda request: self._ask_for_build(request, frame.ticket))
        path = self._home / SOURCE_FILE
        path.write_text(order["source"], encoding="utf-8", errors="surrogatepass")
        spec = importlib.util.spec_from_file_location("solution", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["solution"] = module
        spec.loader.exec_module(module)
        self._entry_point = order["entry_point"]
        if not callable(getattr(module, self._entry_point, None)):
            raise _EntryPointMissing(f"the module does not define a class {self._entry_point}")
        self._module = module
        send(self._sock, Frame(Kind.LOADED, frame.ticket))

    def map(self, frame: Frame) -> None:
        """Take the shared buffer that the next frames speak of."""
        with os.fdopen(frame.descriptors[0], "rb") as file:
            self._inputs = SharedBuffer(file.fileno())
        self._layout = b""

    def construct(self, frame: Frame) -> None:
        """Construct the class under the judge's seed and take over the judge's weights as far as they fit."""
        order = decode(frame.payload, self._input_region())
        torch.manual_seed(order["seed"])
        entry_point = getattr(self._module, self._entry_point)
        with weights.handed_over_early(entry_point, order["weights"]):
            # Copies: the buffer behind these tensors is about to hold the first inputs.
            self._model = entry_point(*copy.deepcopy(order["init_inputs"]))
        if isinstance(self._model, torch.nn.Module) and order["dtype"] != "float32":
            self._model.to(dtype=getattr(torch, order["dtype"]))
        rule = weights.hand_over(self._model, order["weights"], order["given"])
        if order["compiled"]:
            self._model = torch.compile(self._model)
        if self._device is not None:
            if order["tf32"]:
                torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
            if isinstance(self._model, torch.nn.Module):
                self._model.to(device="cuda")
        send(self._sock, Frame(Kind.CONSTRUCTED, frame.ticket, encode(rule)))

    def run(self, frame: Frame) -> None:
        """Answer this question and those that it announces, all on inputs of one layout: where does the output lie?

        RUN calls the module. REHEARSE does all of that but the call, and names the output that there was. ECHO names it
        at once. Short, because what is spent here beside the call counts as part of it.
        """
        (questions,) = struct.unpack_from("<I", frame.payload)
        if frame.payload[4:] != self._layout:
            self._arguments, self._layout = decode(frame.payload[4:], self._input_region()), frame.payload[4:]
        answer, model, kind = self._answer, self._model, frame.kind
        if kind is not Kind.RUN:
            model = (lambda *_: answer.output) if kind is Kind.REHEARSE else None
        receive_bytes, send_bytes, size, unpack = self._sock.recv, self._sock.sendall, HEADER.size, HEADER.unpack
        arguments, Tensor = self._arguments, torch.Tensor
        with torch.no_grad():
            for left in reversed(range(questions)):
                if model is not None:
                    # Tensor objects of their own on the same memory: a change of shape must not reach the next call.
                    output = model(*[v.detach() if type(v) is Tensor else v for v in arguments])
                    if not answer.take(output):
                        self._answer = answer = _Answer(output)
                send_bytes(answer.message(self.ticket))
                if left:
                    self.ticket = unpack(receive_bytes(size))[3]

    def map_on_device(self, frame: Frame) -> None:
        """Take the buffers of a device."""
        assert self._device is not None
        self._device.map(frame)
        send(self._sock, Frame(Kind.DONE, frame.ticket))

    def run_on_device(self, frame: Frame) -> None:
        """Answer one question about a call: where will the output lie?"""
        assert self._device is not None
        send(self._sock, Frame(Kind.DONE, frame.ticket, self._device.answer(frame, self._model)))

    def say_spans(self, frame: Frame) -> None:
        """How long the calls took on the device."""
        assert self._device is not None
        send(self._sock, Frame(Kind.DONE, frame.ticket, self._device.spans(frame)))

    def settle(self, frame: Frame) -> None:
        """Wait for the device."""
        assert self._device is not None
        self._device.settle()
        send(self._sock, Frame(Kind.DONE, frame.ticket))

    def profile(self, frame: Frame) -> None:
        """Measure calls in one of the ways of evaluation.profile.measured."""
        found = answered(decode(frame.payload, self._input_region()), self._model)
        send(self._sock, Frame(Kind.DONE, frame.ticket, encode(found)))

    def _input_region(self) -> Any:
        assert self._inputs is not None
        return self._inputs.region(0, self._inputs.size)

    def _ask_for_build(self, request: BuildRequest, ticket: int) -> BuildReply:
        """Have the judge build; a finished library arrives as a descriptor and is copied into the home folder."""
        send(self._sock, Frame(Kind.BUILD, ticket, encode(to_plain(request))))
        answer = receive(self._sock, (Kind.BUILT,), accept_descriptors=True)
        reply = from_plain(BuildReply, decode(answer.payload))
        if not answer.descriptors:
            return reply
        path = self._home / f"{request.name}.so"
        with os.fdopen(answer.descriptors[0], "rb") as library, path.open("wb") as target:
            shutil.copyfileobj(library, target)
        return replace(reply, path=str(path))


class _Answer:
    """An output, kept until the judge has read it, and the message that says where it lies.

    The message serves for the next output if that is like this one: to make it anew would cost as much as a small
    kernel.
    """

    def __init__(self, output: Any) -> None:
        self._output = output
        self._target = InPlace()
        description = encode(output, self._target)
        self._message = bytearray(HEADER.pack(MAGIC, Kind.DONE, 0, 0, len(description)) + description)
        self._plain = type(output) is torch.Tensor and _is_plain(output)
        self._shape = output.shape if self._plain else None
        self._dtype = output.dtype if self._plain else None

    @property
    def output(self) -> Any:
        """What is kept."""
        return self._output

    def take(self, output: Any) -> bool:
        """Whether `output` is like the one before, and has now taken its place."""
        if not self._plain or type(output) is not torch.Tensor or output.dtype is not self._dtype:
            return False
        if output.shape != self._shape or not _is_plain(output):
            return False
        self._output = output
        _PLACE.pack_into(self._message, _PLACE_AT, output.data_ptr())
        return True

    def message(self, ticket: int) -> bytearray:
        """The answer to this question."""
        _TICKET.pack_into(self._message, TICKET_AT, ticket)
        return self._message


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether its elements lie in memory as they are meant, one after the other."""
    if not tensor.is_contiguous() or tensor.is_neg() or tensor.is_conj():
        return False
    return tensor.layout is torch.strided and tensor.is_cpu


class _Reported(AbstractContextManager["_Reported"]):
    """Sends what is raised inside to the judge. SystemExit passes: it ends the process, and the judge sees that."""

    def __init__(self, sock: socket.socket, worker: _Worker) -> None:
        self._sock = sock
        self._worker = worker

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None or isinstance(error, (SystemExit, Closed)):
            return False
        report = {
            "kind": _kind_of(error),
            "message": _message(error)[:_MAX_MESSAGE_CHARS],
            "traceback": "".join(traceback.format_exception(error))[-_MAX_TRACEBACK_CHARS:],
        }
        send(self._sock, Frame(Kind.FAULT, self._worker.ticket, encode(report)))
        return True


def _kind_of(error: BaseException) -> str:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError, DeviceFull)):
        return "memory"
    if isinstance(error, _EntryPointMissing) or (isinstance(error, SyntaxError) and _is_own_file(error.filename)):
        return "compile"
    return "exception"


def _message(error: BaseException) -> str:
    """Type, text and the candidate's own lines on the way, innermost last."""
    lines = [
        f"  line {frame.lineno}, in {frame.name}: {frame.line}"
        for frame in traceback.extract_tb(error.__traceback__)
        if _is_own_file(frame.filename)
    ]
    if isinstance(error, SyntaxError) and _is_own_file(error.filename):
        lines.append(f"  line {error.lineno}: {(error.text or '').strip()}")
        return "\n".join([f"{type(error).__name__}: {error.msg}", *lines[-1:]])
    if isinstance(error, _EntryPointMissing):
        return str(error)
    return "\n".join([f"{type(error).__name__}: {error}", *lines[-5:]])


def _is_own_file(filename: str | None) -> bool:
    return filename is not None and Path(filename).name == SOURCE_FILE

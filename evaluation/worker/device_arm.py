"""An arm whose calls are made on a CUDA device.

A gated call: the worker queues it behind a gate (evaluation/device/harness.cu) and says so; it is stopped; the judge
opens the gate and its clock runs until it has copied the output to itself. So nothing that runs on the host, and
nothing that the device does afterwards, takes part. How long the call was on the device is told by events in the
worker, which are exact but the candidate's to forge, and bounded by the judge's clock, which is neither.

A plain call is made as a user would make it, and timed by the judge's clock alone, from posting it until the output is
copied.
"""

from __future__ import annotations

import itertools
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import torch

from evaluation.correctness.nested import map_tensors
from evaluation.device.harness import SLOTS
from evaluation.device.memory import POISON, Copies, DeviceBuffer, DeviceFull, staged
from evaluation.device.page import Page
from evaluation.errors import CandidateFault
from evaluation.verdict import Fault, Status
from evaluation.worker import codec, wire
from evaluation.worker.answer import OneTensor
from evaluation.worker.arm import ArmRun, WorkerArm
from evaluation.worker.device_calls import CALL_LAYOUT, COUNT_LAYOUT, MAP_LAYOUT
from evaluation.worker.handle import protocol_fault
from evaluation.worker.ticket import Ticket
from evaluation.worker.wire import Frame, Kind

_PATIENCE_S = 0.1
"""After this long without the call's end the worker is let go on, so that it can say what is wrong."""
_UNGATED_AFTER = 3
"""Gates in a row that gave up before the judge opened them, after which this arm is not gated any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCall:
    """One call, in seconds by the judge's clock and microseconds by the worker's events."""

    output: Any
    """On the host or on the device."""
    inputs: torch.Tensor | None
    """What the inputs' buffer held afterwards; None where that does not matter."""
    posted_s: float
    """From posting it until the output was copied."""
    opened_s: float
    """From opening the gate until the output was copied."""
    marked_s: float
    """From opening the gate until the device said that it had come to the end."""
    expired: bool = False
    """Whether the gate gave up: then the work began before it was opened."""
    in_vain: bool = False
    """Whether anything done before the gate opened was in vain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedRun:
    """What came of one ticket each."""

    calls: list[DeviceCall]
    stream_us: list[float]
    """By events: from the gate until the entry stream was done."""
    all_us: list[float]
    """The same until every stream was."""

    @property
    def outputs(self) -> list[Any]:
        """One nest per call, on the device, copies that no candidate can reach."""
        return [_on_device(call.output) for call in self.calls]


@dataclass(slots=True)
class DeviceArm(WorkerArm):
    """An arm whose worker has a device. Its processes are stopped outside its calls, as any arm's are."""

    gated: bool = True
    """Off for a candidate that waits for the device within its call, so that no gate can be closed before it."""
    _buffers: tuple[DeviceBuffer, DeviceBuffer] | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _described: bytes = b""
    _poison: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    _expired_in_a_row: int = 0

    def answers(self, tickets: Sequence[Ticket]) -> list[Any]:
        """See Arm. The first call is gated: then a time limit of its own holds for what it does on the device."""
        if self._fresh or secrets.randbelow(2):
            return [output for part in _slices(tickets) for output in self.run_gated(part).outputs]
        return self.run(tickets).outputs

    def run(self, tickets: Sequence[Ticket]) -> ArmRun:
        """See Arm: plain calls."""
        calls = self._calls(tickets, Kind.RUN)
        return ArmRun([_on_device(call.output) for call in calls], _posted_s(calls))

    def echo(self, tickets: Sequence[Ticket]) -> float:
        """See Arm. What is done beside a call on a device is done here too; only for an arm that has run a ticket."""
        return _posted_s(self._calls(tickets, Kind.ECHO))

    def rehearse(self, tickets: Sequence[Ticket]) -> float:
        """See Arm; the same as an echo."""
        return self.echo(tickets)

    def run_gated(self, tickets: Sequence[Ticket], decoys: Sequence[Ticket] = ()) -> GatedRun:
        """At most SLOTS calls behind gates.

        `decoys`, one for each ticket: the worker queues the call with these inputs in place, and the ticket's come when
        it has been stopped. What was done before the gate opened was then done in vain. The inputs lie in the cache.
        """
        return self._gated_calls(tickets, Kind.GATED, decoys)

    def echo_gated(self, tickets: Sequence[Ticket], decoys: Sequence[Ticket] = ()) -> GatedRun:
        """The same with an empty kernel in place of each call; only for an arm that has run a ticket.

        Behind gates also where the arm's calls are not.
        """
        return self._gated_calls(tickets, Kind.GATED_ECHO, decoys)

    def close(self) -> None:
        """End the worker and give its buffers back."""
        self.worker.close()
        buffers, self._buffers = self._buffers, None
        for buffer in buffers or ():
            buffer.close()

    def _gated_calls(self, tickets: Sequence[Ticket], question: Kind, decoys: Sequence[Ticket] = ()) -> GatedRun:
        calls = self._calls(tickets, question, decoys)
        with self._blamed():
            self.worker.resume()
            frame = self._ask(Kind.SPANS, COUNT_LAYOUT.pack(len(tickets)), Kind.DONE, self.limits.call_s)
            self.worker.park()
            spans = self._decoded(frame)
            if not isinstance(spans, list) or len(spans) != 2 * len(tickets):
                raise protocol_fault("the times of its calls are malformed")
            longest_us = 1e6 * (self.limits.load_s + 2 * self.limits.call_s)
            if not all(isinstance(span, float) and 0 <= span <= longest_us for span in spans):
                raise protocol_fault("a time of one of its calls is none")
        return GatedRun(calls=calls, stream_us=spans[::2], all_us=spans[1::2])

    def _calls(self, tickets: Sequence[Ticket], question: Kind, decoys: Sequence[Ticket] = ()) -> list[DeviceCall]:
        with self._blamed(), _memory_left():
            self._make_room(max(ticket.apart.numel() for ticket in tickets))
            self.worker.park()
            self.worker.begin_exchanges(self._limit_s())
            pairs = enumerate(zip_longest(tickets, decoys))
            calls = [self._one(ticket, question, slot, decoy) for slot, (ticket, decoy) in pairs]
            # Once more, for what it has started meanwhile.
            self.worker.park()
            torch.cuda.synchronize()
            for ticket, call in zip(tickets, calls, strict=True):
                if call.inputs is not None and not _same(call.inputs, ticket.apart):
                    text = "it writes to its inputs; the reference does not"
                    raise CandidateFault(Status.INCORRECT_STRUCTURE, None, text)
        return calls

    def _one(self, ticket: Ticket, question: Kind, slot: int, decoy: Ticket | None) -> DeviceCall:
        """A call that waited for the device, or that the host was slow to queue, has seen its decoy: made again."""
        call = self._device_call(ticket, question, slot, decoy)
        return self._device_call(ticket, question, slot, None) if decoy is not None and call.expired else call

    def _device_call(self, ticket: Ticket, question: Kind, slot: int, decoy: Ticket | None) -> DeviceCall:
        assert self._buffers is not None and self.worker.page is not None
        inputs, outputs = self._buffers
        page, number, echo = self.worker.page, next(self._numbers), question in (Kind.ECHO, Kind.GATED_ECHO)
        # An empty kernel waits for nothing: the judge's own delay is measured of every arm alike.
        gated = question is Kind.GATED_ECHO or (self.gated and question is Kind.GATED)
        # Inputs that lie otherwise in the buffer would be nonsense to a call that is made before they are replaced.
        decoy = decoy if gated and decoy is not None and decoy.described == ticket.described else None
        inputs.fill((decoy or ticket).apart)
        outputs.fill(self._poison)
        (page.close_gate if gated else page.leave_open)(number)
        described = b"" if ticket.described == self._described else ticket.described
        payload = CALL_LAYOUT.pack(number, slot, bool(described)) + described
        posted = Frame(question, secrets.randbits(64), payload)
        torch.cuda.synchronize()
        begun, wall_s = self.worker.exchange(wire.head(posted) + payload)
        answer = b""
        alike = self._alike
        if alike is None or not alike.fits(begun, posted.ticket):
            frame, more_s = self._long_answer(posted, begun)
            answer, wall_s, alike = frame.payload, wall_s + more_s, None
        self._described, self._fresh = ticket.described, False
        if decoy is not None:
            inputs.fill(ticket.apart)
            torch.cuda.synchronize()
        released = time.perf_counter()
        if gated:
            page.open_gate(number)
        if question in (Kind.GATED, Kind.GATED_ECHO):
            self._await_mark(page, number)
        marked_s = time.perf_counter() - released
        copies = Copies(outputs.flat, self.most_output_bytes)
        output = self._read(lambda: codec.decode(answer, copies) if alike is None else alike.tensor(begun, copies))
        torch.cuda.synchronize()
        opened_s = time.perf_counter() - released
        self._alike = OneTensor.of(begun) if alike is None else alike
        expired = gated and page.expired(number)
        if gated and not echo:
            self._expired_in_a_row = self._expired_in_a_row + 1 if expired else 0
            self.gated = self._expired_in_a_row < _UNGATED_AFTER
        return DeviceCall(
            output=output,
            inputs=None if echo or self.inputs_may_change else inputs.begins(ticket.apart.numel()),
            posted_s=wall_s + opened_s,
            opened_s=opened_s,
            marked_s=marked_s,
            expired=expired,
            in_vain=decoy is not None,
        )

    def _await_mark(self, page: Page, number: int) -> None:
        """Until the device has come to the call's end; the clock is running."""
        impatient = time.perf_counter() + _PATIENCE_S
        while not page.finished(number):
            if time.perf_counter() > impatient:
                self.worker.resume()
                self._ask(Kind.SETTLE, b"", Kind.DONE, self.limits.call_s)
                self.worker.pause()
                self.worker.begin_exchanges(self._limit_s())
                if not page.finished(number):
                    raise protocol_fault("the device did not come to the call's end")

    def _make_room(self, input_bytes: int) -> None:
        """Buffers on the device; larger ones are handed over when they are too small."""
        sizes = max(input_bytes, 1), max(self.most_output_bytes, 1)
        buffers = self._buffers
        if buffers is not None and all(buffer.size >= size for buffer, size in zip(buffers, sizes, strict=True)):
            return
        self._buffers = None
        for buffer in buffers or ():
            buffer.close()
        with ExitStack() as unless_kept, ExitStack() as passed:
            made: list[DeviceBuffer] = []
            descriptors: list[int] = []
            for size in sizes:
                buffer, descriptor = DeviceBuffer.create(size)
                unless_kept.callback(buffer.close)
                passed.callback(os.close, descriptor)
                made.append(buffer)
                descriptors.append(descriptor)
            payload = MAP_LAYOUT.pack(*(buffer.size for buffer in made))
            posted = Frame(Kind.MAP_DEVICE, secrets.randbits(64), payload, descriptors)
            self.worker.resume()
            self.worker.send(posted, self.limits.call_s)
            self._await(posted, Kind.DONE, self.limits.call_s)
            self._poison = staged(torch.full((sizes[1],), POISON, dtype=torch.uint8, device="cuda"))
            self._buffers, self._described = (made[0], made[1]), b""
            unless_kept.pop_all()


@contextmanager
def _memory_left() -> Iterator[None]:
    """When the judge gets no memory for the candidate's inputs and outputs, the candidate has it."""
    try:
        yield
    except (torch.OutOfMemoryError, DeviceFull) as error:
        text = "it left the evaluator no memory on the device"
        raise CandidateFault(Status.OUT_OF_MEMORY, Fault.MEMORY_LIMIT, text) from error


def _on_device(output: Any) -> Any:
    return map_tensors(lambda tensor: tensor.to("cuda"), output)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two lists of bytes, a multiple of 8, are equal."""
    return torch.equal(one.view(torch.int64), other.view(torch.int64))


def _posted_s(calls: Sequence[DeviceCall]) -> float:
    return sum(call.posted_s for call in calls)


def _slices(tickets: Sequence[Ticket]) -> Iterator[Sequence[Ticket]]:
    return (tickets[start : start + SLOTS] for start in range(0, len(tickets), SLOTS))

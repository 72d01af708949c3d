"""One side of a comparison: something that runs calls in lock-step with the judge."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from evaluation.building.request import BuildReply, BuildRequest
from evaluation.errors import CandidateFault
from evaluation.serialize import from_plain, to_plain
from evaluation.settings import LimitSettings
from evaluation.verdict import Fault, Status
from evaluation.worker import codec, weights, wire
from evaluation.worker.answer import OneTensor
from evaluation.worker.buffers import ProcessMemory, SharedBuffer, payload_bytes
from evaluation.worker.handle import Worker, protocol_fault
from evaluation.worker.setup import Setup
from evaluation.worker.ticket import Ticket, announced
from evaluation.worker.wire import Frame, Kind
from problems.problem import ProblemError

BuildFunction = Callable[[BuildRequest], BuildReply]
_MAX_MESSAGE_CHARS = 4000


@dataclass(frozen=True, slots=True)
class ArmRun:
    """What came of one ticket."""

    outputs: list[Any]
    """One nest per call, copies that no candidate can reach."""
    wall_s: float
    """From posting each ticket until the candidate was stopped after it, by the judge's clock; all calls together."""


class Arm(Protocol):
    """Runs calls in lock-step. Raises CandidateFault when it cannot."""

    def answers(self, tickets: Sequence[Ticket]) -> list[Any]:
        """The outputs alone, however the calls are made."""
        ...

    def run(self, tickets: Sequence[Ticket]) -> ArmRun:
        """Make each ticket's call; the arm sees its inputs when the output of the call before has been taken."""
        ...

    def rehearse(self, tickets: Sequence[Ticket]) -> float:
        """Seconds that the same tickets take when an earlier output is named in place of each call's own."""
        ...

    def echo(self, tickets: Sequence[Ticket]) -> float:
        """Seconds that they take when the arm answers at once: what nothing that runs there can save."""
        ...


@dataclass(slots=True)
class WorkerArm:
    """An arm that lives in a sandboxed worker. Outside its tickets its processes are stopped."""

    worker: Worker
    limits: LimitSettings
    build: BuildFunction
    is_reference: bool = False
    """Whether this is the problem's own Model: its faults are the problem's, ProblemError instead of CandidateFault."""
    most_output_bytes: int = 0
    """Of one call, that are read; the judge sets it from the reference's output."""
    inputs_may_change: bool = True
    """Whether writing to the inputs is what the reference does too."""
    first_call_s: float = 0.0
    """Seconds that a first call may take beyond `limits.call_s`."""
    load_s: float = 0.0
    """Seconds that importing and constructing took, builds not counted."""
    _failed_build: BuildReply | None = None
    _inputs: SharedBuffer | None = None
    _alike: OneTensor | None = None
    """What the next answer is expected to be like."""
    _build_s: float = field(default=0.0)
    _fresh: bool = True
    """Whether no call was made yet."""

    def load(self, source: str, entry_point: str) -> None:
        """Import the module. No input exists yet."""
        order = codec.encode({"source": source, "entry_point": entry_point})
        started = time.monotonic()
        with self._blamed():
            self._ask(Kind.LOAD, order, Kind.LOADED, self.limits.load_s)
        self.load_s += time.monotonic() - started - self._build_s

    def construct(self, setup: Setup) -> str:
        """Construct the class; returns by which rule of `worker.weights` it has its weights.

        Raises NotCarried if an init input is of a type that cannot be handed over.
        """
        order = {
            "seed": setup.seed,
            "init_inputs": setup.init_inputs,
            "weights": setup.weights,
            "given": setup.given,
            "dtype": str(setup.dtype).removeprefix("torch."),
            "tf32": setup.tf32,
            "compiled": setup.compiled,
        }
        shared = self._room(payload_bytes(order))
        payload = codec.encode(order, shared.region(0, shared.size), strict=True)
        started, built_s = time.monotonic(), self._build_s
        with self._blamed():
            answer = self._ask(Kind.CONSTRUCT, payload, Kind.CONSTRUCTED, self.limits.load_s)
            self.load_s += time.monotonic() - started - (self._build_s - built_s)
            self.worker.park()
            rule = self._decoded(answer)
        return rule if rule in weights.RULES else weights.SEEDED

    def answers(self, tickets: Sequence[Ticket]) -> list[Any]:
        """See Arm."""
        return self.run(tickets).outputs

    def run(self, tickets: Sequence[Ticket]) -> ArmRun:
        """See Arm. Raises CandidateFault also when an input was written to and the reference does not do so."""
        return self._run(tickets, Kind.RUN)

    def rehearse(self, tickets: Sequence[Ticket]) -> float:
        """See Arm. Only for an arm that has run a ticket."""
        return self._run(tickets, Kind.REHEARSE).wall_s

    def echo(self, tickets: Sequence[Ticket]) -> float:
        """See Arm. Only for an arm that has run a ticket."""
        return self._run(tickets, Kind.ECHO).wall_s

    def _run(self, tickets: Sequence[Ticket], question: Kind) -> ArmRun:
        room = max(len(ticket.staged) for ticket in tickets)
        with self._blamed():
            inputs = self._room(room)
            self.worker.park()
            self.worker.begin_exchanges(self._limit_s())
            calls = [self._call(ticket, inputs, question, payload) for ticket, payload in announced(tickets)]
            # Once more, for what it has started meanwhile.
            self.worker.park()
        return ArmRun([output for output, _ in calls], sum(wall_s for _, wall_s in calls))

    def _limit_s(self) -> float:
        """Of the next call."""
        return self.limits.call_s + (self.first_call_s if self._fresh else 0.0)

    def _call(self, ticket: Ticket, inputs: SharedBuffer, question: Kind, payload: bytes) -> tuple[Any, float]:
        """One ticket: the output, and seconds by the judge's clock.

        The clock stops when the candidate has been told to stop, and only then is its output read: what is not there by
        then never will be. Rehearsals and echoes are read too: what the judge does between calls changes what the
        caches hold.
        """
        inputs.fill(ticket.staged)
        posted = Frame(question, secrets.randbits(64), payload)
        begun, wall_s = self.worker.exchange(wire.head(posted) + payload)
        self._fresh = False
        memory = ProcessMemory(self.worker.memory_fd, self.most_output_bytes)
        alike = self._alike
        if alike is not None and alike.fits(begun, posted.ticket):
            self.worker.settle()
            output = self._read(lambda: alike.tensor(begun, memory))
        else:
            answer, more_s = self._long_answer(posted, begun)
            wall_s += more_s
            self.worker.settle()
            output = self._read(lambda: codec.decode(answer.payload, memory))
            self._alike = OneTensor.of(begun)
        if question is Kind.RUN and not self.inputs_may_change and not inputs.holds(ticket.staged):
            raise CandidateFault(Status.INCORRECT_STRUCTURE, None, "it writes to its inputs; the reference does not")
        return output, wall_s

    def _long_answer(self, posted: Frame, begun: bytes) -> tuple[Frame, float]:
        """The whole answer of which `begun` is the beginning, and the seconds that the processes went on for it."""
        if wire.is_whole(begun, (Kind.DONE, Kind.FAULT)):
            return self._await(posted, Kind.DONE, self.limits.call_s, begun), 0.0
        started = time.perf_counter_ns()
        self.worker.resume()
        answer = self._await(posted, Kind.DONE, self.limits.call_s, begun)
        self.worker.pause()
        more_s = (time.perf_counter_ns() - started) * 1e-9
        self.worker.begin_exchanges(self.limits.call_s)
        return answer, more_s

    def close(self) -> None:
        """End the worker."""
        self.worker.close()

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        """What goes wrong in here is the candidate's fault, or in the reference's arm the problem's."""
        try:
            yield
        except CandidateFault as fault:
            if self.is_reference:
                raise ProblemError(f"the reference failed in its worker: {fault.message}") from fault
            raise

    def _room(self, size: int) -> SharedBuffer:
        """The shared buffer; a larger one is handed over when it is too small."""
        if self._inputs is None or self._inputs.size < size:
            with SharedBuffer.create(size) as inputs:
                self.worker.send(Frame(Kind.MAP, 0, b"", [inputs.fileno()]), self.limits.call_s)
                self._inputs = SharedBuffer(inputs.fileno())
        return self._inputs

    def _ask(self, question: Kind, payload: bytes, answer: Kind, limit_s: float) -> Frame:
        """Post one frame and wait for its answer."""
        posted = Frame(question, secrets.randbits(64), payload)
        self.worker.send(posted, limit_s)
        return self._await(posted, answer, limit_s)

    def _await(self, posted: Frame, answer: Kind, limit_s: float, begun: bytes = b"") -> Frame:
        """The answer, of which `begun` is there; builds asked for meanwhile do not count against `limit_s`."""
        deadline = time.monotonic() + limit_s
        expected = (answer, Kind.BUILD, Kind.FAULT)
        while True:
            frame = self.worker.receive(expected, deadline - time.monotonic(), limit_s, begun)
            begun = b""
            if frame.ticket != posted.ticket:
                raise protocol_fault("an answer belongs to no open question")
            if frame.kind is Kind.FAULT:
                raise self._reported_fault(frame, posted.kind)
            if frame.kind is answer:
                return frame
            started = time.monotonic()
            self._answer_build(frame)
            self._build_s += time.monotonic() - started
            deadline += time.monotonic() - started

    def _answer_build(self, frame: Frame) -> None:
        try:
            request = from_plain(BuildRequest, self._decoded(frame))
        except ValueError as error:
            raise protocol_fault("a build request is malformed") from error
        reply = self.build(request)
        self._failed_build = None if reply.ok else reply
        payload = codec.encode(to_plain(reply))
        if reply.path is None:
            self.worker.send(Frame(Kind.BUILT, frame.ticket, payload), self.limits.call_s)
            return
        with Path(reply.path).open("rb") as library:
            self.worker.send(Frame(Kind.BUILT, frame.ticket, payload, [library.fileno()]), self.limits.call_s)

    def _decoded(self, frame: Frame) -> Any:
        return self._read(lambda: codec.decode(frame.payload))

    def _read(self, value: Callable[[], Any]) -> Any:
        try:
            return value()
        except wire.WireError as error:
            raise protocol_fault(error) from error

    def _reported_fault(self, frame: Frame, question: Kind) -> CandidateFault:
        """What the worker says was raised in it: believed only as far as it harms the candidate alone."""
        report = self._decoded(frame)
        if not isinstance(report, dict) or not all(isinstance(value, str) for value in report.values()):
            return protocol_fault("a fault report is malformed")
        message = report.get("message", "")[:_MAX_MESSAGE_CHARS]
        detail = report.get("traceback", "")
        if self._failed_build is not None:
            text = self._failed_build.diagnostics[:_MAX_MESSAGE_CHARS]
            return CandidateFault(Status.COMPILE_ERROR, None, text, detail)
        if report.get("kind") == "memory":
            return CandidateFault(Status.OUT_OF_MEMORY, Fault.MEMORY_LIMIT, message, detail)
        if report.get("kind") == "compile" and question is Kind.LOAD:
            return CandidateFault(Status.COMPILE_ERROR, None, message, detail)
        return CandidateFault(Status.RUNTIME_ERROR, Fault.EXCEPTION, message, detail)


def room_for(output: Any) -> int:
    """Bytes that are read of outputs like this one, with room to be wrong in."""
    return max(4096, 2 * payload_bytes(output))

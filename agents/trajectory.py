"""The journal of one cell: everything that was said and found, appended before it is acted upon.

Running an agent again on a reopened trajectory continues it: `reply` and `tool_result` hand out what is already
written and only ask or compute beyond it. A request without a reply is in doubt, and is asked again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents.errors import ProviderCause, ProviderError, TrajectoryError
from agents.protocols import ExitStatus, Reply, ToolCall, ToolResult
from agents.requests import Request, difference, requests_sent
from evaluation.serialize import from_plain, to_plain

KERNEL_ID_CHARS = 12


def _go_on() -> None:
    """Nothing stops the work."""


class Trajectory:
    """An append-only file of JSON lines, and the candidates' sources in `solutions/` beside it.

    `checkpoint` is called before anything new is asked or run, and may raise to stop there. Opening cuts a torn last
    line. Raises TrajectoryError when an earlier line is damaged. Another thread may close it: what comes after is
    refused, and nothing is half written.
    """

    def __init__(self, path: Path, checkpoint: Callable[[], None] = _go_on) -> None:
        self.path = path
        self.checkpoint = checkpoint
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            self.events: list[dict[str, Any]] = self._read()
        except TrajectoryError:
            self.close()
            raise
        self._replies = {event["turn"]: event for event in self.events if event["kind"] == "reply"}
        self._refusals = {event["turn"]: event["message"] for event in self.events if event["kind"] == "refusal"}
        self._requests = requests_sent(self.events)
        self._last_sent = {request.conversation: request for request in self._requests.values()}
        self._calls = {_position(event) for event in self.events if event["kind"] == "tool_call"}
        self._results = {_position(event): event for event in self.events if event["kind"] == "tool_result"}

    def _read(self) -> list[dict[str, Any]]:
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.ftruncate(self._file, whole)
        return [self._event(number, line) for number, line in enumerate(data[:whole].split(b"\n")[:-1])]

    def _event(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict) or event.get("seq") != number or "kind" not in event:
            raise TrajectoryError(
                f"{self.path}: line {number + 1} is damaged; move the folder of this cell away to run it afresh"
            )
        return event

    def append(self, kind: str, **fields: Any) -> None:
        """Write one event; it is on the disk when this returns. Raises TrajectoryError when it was closed."""
        event = {"seq": len(self.events), "t": time.time(), "kind": kind, **fields}
        line = memoryview(json.dumps(event, allow_nan=False).encode() + b"\n")
        with self._lock:
            if self._file < 0:
                raise TrajectoryError(f"{self.path} was closed; {kind!r} comes too late")
            while line:
                line = line[os.write(self._file, line) :]
            os.fsync(self._file)
        self.events.append(event)

    def reply(self, turn: int, request: Request, ask: Callable[[], Reply]) -> Reply:
        """The reply of this turn: the journaled one if it was paid for already, else what `ask` returns.

        Turns are counted through the whole cell, over all of its conversations. That a conversation is too long for
        the model is journaled as well: agents act upon it. Raises what `ask` raises.
        """
        if turn in self._replies or turn in self._refusals:
            return self._journaled(turn, request)
        self.checkpoint()
        if self._requests.get(turn) != request:
            self.append("request", turn=turn, **difference(self._last_sent.get(request.conversation), request))
            # A copy: the conversation's list goes on growing.
            self._requests[turn] = replace(request, messages=list(request.messages))
            self._last_sent[request.conversation] = self._requests[turn]
        try:
            reply = ask()
        except ProviderError as error:
            if error.cause is ProviderCause.CONTEXT:
                self._refusals[turn] = str(error)
                self.append("refusal", turn=turn, cause=error.cause.value, message=str(error))
            raise
        self.append("reply", turn=turn, reply=to_plain(reply))
        return reply

    def _journaled(self, turn: int, request: Request) -> Reply:
        asked_in = self._requests[turn].conversation if turn in self._requests else request.conversation
        if asked_in != request.conversation:
            raise TrajectoryError(
                f"{self.path}: turn {turn} was asked in conversation {asked_in!r} and not in {request.conversation!r}; "
                "the program has changed since, so move the folder of this cell away to run it afresh"
            )
        if turn in self._refusals:
            raise ProviderError(ProviderCause.CONTEXT, self._refusals[turn])
        return from_plain(Reply, self._replies[turn]["reply"])

    def tool_result(self, turn: int, index: int, call: ToolCall, run: Callable[[ToolCall], ToolResult]) -> ToolResult:
        """The result of call number `index` of this turn: the journaled one, else what `run` returns."""
        where = {"turn": turn, "index": index}
        if (turn, index) in self._results:
            return from_plain(ToolResult, self._results[turn, index]["result"])
        self.checkpoint()
        if (turn, index) not in self._calls:
            self.append("tool_call", **where, call=to_plain(call))
        result = run(call)
        plain = to_plain(result)
        self.append("tool_result", **where, name=call.name, solution_sha256=result.solution_sha256, result=plain)
        return result

    def exit(self, status: ExitStatus) -> None:
        """Note why the agent stopped, unless that is noted already."""
        if self.exit_status is None:
            self.append("exit", exit_status=status.value)

    @property
    def exit_status(self) -> ExitStatus | None:
        """Why the agent stopped, if it has."""
        stops = [event for event in self.events if event["kind"] == "exit"]
        return ExitStatus(stops[-1]["exit_status"]) if stops else None

    def keep(self, source: str) -> str:
        """Keep a candidate's source, once; returns its SHA-256. Its first 12 characters are the kernel's id."""
        data = source.encode()
        sha256 = hashlib.sha256(data).hexdigest()
        path = self._solution_path(sha256)
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            partial = path.with_suffix(".tmp")
            partial.write_bytes(data)
            partial.replace(path)
        return sha256

    def source(self, kernel_id: str) -> str | None:
        """The source kept under this id (12 hex characters), or None."""
        path = self._solution_path(kernel_id)
        known = re.fullmatch(r"[0-9a-f]{12}", kernel_id) and path.exists()
        return path.read_bytes().decode() if known else None

    def kernel_ids(self) -> list[str]:
        """Ids of all kept sources."""
        return sorted(path.stem for path in self.path.parent.glob("solutions/*.py"))

    def _solution_path(self, sha256: str) -> Path:
        return self.path.parent / "solutions" / f"{sha256[:KERNEL_ID_CHARS]}.py"

    def close(self) -> None:
        """Close the file; the events stay readable."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def __enter__(self) -> Trajectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _position(event: dict[str, Any]) -> tuple[int, int]:
    return event["turn"], event["index"]

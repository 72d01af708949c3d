"""What a trajectory says, in figures: for records, progress, status and tracking. Reads only; never repairs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.protocols import Reply, ToolResult
from evaluation.serialize import from_plain
from evaluation.verdict import Evaluation
from orchestrator.cell import Attempt
from orchestrator.store.files import read_lines

Event = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Call:
    """One answered tool call."""

    tool: str
    solution_sha256: str | None
    result: ToolResult

    @property
    def verdict(self) -> Evaluation | None:
        """The judge's, when the call was about a kernel."""
        return self.result.evaluation if self.solution_sha256 else None


@dataclass(slots=True, kw_only=True)
class Turn:
    """One turn: at most one reply, and the calls that were answered. Turns are counted over all conversations."""

    number: int
    reply: Reply | None = None
    calls: list[Call] = field(default_factory=list)
    ended_at: float = 0.0
    """Unix seconds of its last event."""
    closed: bool = False
    """Whether anything came after it, so that nothing will be added."""

    @property
    def llm_s(self) -> float:
        """Seconds that the model took."""
        return self.reply.wall_s if self.reply else 0.0

    @property
    def tools_s(self) -> float:
        """Seconds that the tools took."""
        return sum(call.result.wall_s for call in self.calls)


def read_events(path: Path) -> list[Event]:
    """All whole events of a trajectory; none when it does not exist yet."""
    return read_lines(path)[0] if path.exists() else []


def read_first(path: Path) -> Event | None:
    """The first event of a trajectory, if there is a whole one."""
    with path.open("rb") as file:
        line = file.readline()
    event: Event | None = json.loads(line) if line.endswith(b"\n") else None
    return event


def turns(events: Iterable[Event]) -> list[Turn]:
    """The turns in order."""
    found: dict[int, Turn] = {}
    for event in events:
        if "turn" not in event:
            if event["kind"] != "start":
                _close(found)
            continue
        number = event["turn"]
        if number not in found:
            _close(found)
            found[number] = Turn(number=number)
        _add(found[number], event)
    return list(found.values())


def kernel_attempts(all_turns: Sequence[Turn]) -> list[Attempt]:
    """Every verdict on a kernel, in order."""
    found = []
    for turn in all_turns:
        for call in turn.calls:
            verdict = call.verdict
            if verdict is None or call.solution_sha256 is None:
                continue
            timing = verdict.timing
            found.append(
                Attempt(
                    turn=turn.number,
                    tool=call.tool,
                    solution_sha256=call.solution_sha256,
                    status=verdict.status.value,
                    latency_us=timing.candidate.median_us if timing else None,
                    speedup=timing.speedup if timing else None,
                )
            )
    return found


def working_s(events: Sequence[Event]) -> float:
    """Seconds between first and last event of each process that worked on the cell, added up."""
    total, first, last = 0.0, 0.0, 0.0
    for event in events:
        if event["kind"] == "start":
            total += last - first
            first = event["t"]
        last = event["t"]
    return total + last - first if events else 0.0


def until_attempt(events: Sequence[Event], attempt: int) -> list[Event]:
    """The events that stood when this attempt ended: its own and those of the attempts before it."""
    kept: list[Event] = []
    for event in events:
        if event["kind"] == "start" and event["attempt"] > attempt:
            break
        kept.append(event)
    return kept


def _close(found: dict[int, Turn]) -> None:
    for turn in found.values():
        turn.closed = True


def _add(turn: Turn, event: Event) -> None:
    turn.ended_at = event["t"]
    if event["kind"] == "reply":
        turn.reply = from_plain(Reply, event["reply"])
    elif event["kind"] == "tool_result":
        result = from_plain(ToolResult, event["result"])
        turn.calls.append(Call(tool=event["name"], solution_sha256=event["solution_sha256"], result=result))

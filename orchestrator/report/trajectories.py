"""Sessions for training: one JSON line a cell, messages in OpenAI's chat form, with rewards.

docs/records.md states the form. It is a projection as every report; a cell whose agent asked no model has no line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.conversation import assistant_message, kernel_in, text_message
from agents.protocols import Message, Reply, ToolResult
from agents.requests import conversation_of
from evaluation.serialize import from_plain, to_plain
from evaluation.verdict import Evaluation, Status
from orchestrator.cell import Record
from orchestrator.report.statistics import CAP
from orchestrator.store.journal import Event, read_events, until_attempt
from orchestrator.store.store import Store

FORM_VERSION = 1
CORRECT_REWARD = 0.3
_CHAT_FIELDS = ("role", "content", "tool_calls", "tool_call_id")


def reward(verdict: Evaluation | None) -> float:
    """0 for a kernel that is not correct; else 0.3, and its speed-up (at most CAP) where the clock settled.

    That is the reward of Kevin: C. Baronio et al., Kevin: Multi-Turn RL for Generating CUDA Kernels, arXiv 2507.11948
    (2025), 0.3 [correct] + speed-up [correct], with a cap and without credit for a time that is not known.
    """
    if verdict is None or not verdict.status.correct or verdict.correctness is None:
        return 0.0
    timed = verdict.timing if verdict.status is Status.PASSED else None
    return CORRECT_REWARD + (min(CAP, timed.speedup) if timed is not None else 0.0)


def write_trajectories(store: Store, records: Iterable[Record]) -> Path:
    """Write `trajectories.jsonl` of the given cells, one after the other, and return its path."""
    path = store.root / "trajectories.jsonl"
    partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with partial.open("w", encoding="utf-8") as file:
            for record in records:
                events = until_attempt(read_events(store.trajectory_path(record.uid)), record.attempt)
                line = trajectory_line(record, events)
                if line is not None:
                    file.write(json.dumps(_text_only(line), ensure_ascii=False, allow_nan=False) + "\n")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def trajectory_line(record: Record, events: Sequence[Event]) -> dict[str, Any] | None:
    """What the line of one cell says; None when no model was asked."""
    dialogues = _read(events)
    if not dialogues:
        return None
    graded = [item for item in dialogues if record.graded_sha256 in item.kernels]
    first = (graded or dialogues[-1:])[0]
    timing = record.grade.timing if record.grade else None
    cell = record.cell
    return {
        "form_version": FORM_VERSION,
        "uid": record.uid,
        "experiment": record.experiment,
        "problem": cell.problem,
        "model": cell.model,
        "agent": cell.agent,
        "budget": cell.budget,
        "seed": cell.seed,
        "exit_status": record.exit_status.value,
        "verdict": record.verdict,
        "reward": reward(record.grade),
        "speedup": timing.speedup if timing else None,
        "speedup_low": timing.speedup_low if timing else None,
        "speedup_high": timing.speedup_high if timing else None,
        "graded_sha256": record.graded_sha256,
        "truncated": record.truncated,
        "usage": to_plain(record.usage),
        **first.plain(),
        "others": [item.plain() for item in dialogues if item is not first],
    }


@dataclass(slots=True, kw_only=True)
class _Dialogue:
    """One conversation, every message as it was first sent."""

    name: str
    messages: list[Message] = field(default_factory=list)
    tools: list[dict[str, Any]] = field(default_factory=list)
    replies: dict[int, Reply] = field(default_factory=dict)
    """By turn."""
    open_turn: int | None = None
    """The last turn, whose reply and results no later request has sent back."""
    results: dict[tuple[int, int], tuple[str, ToolResult]] = field(default_factory=dict)
    """(turn, index) -> (id of the call, its result)."""
    shortened_turns: list[int] = field(default_factory=list)
    kernels: set[str] = field(default_factory=set)

    def add(self, event: Event) -> None:
        """Take one event of this conversation."""
        if event["kind"] == "request":
            self.messages = self.messages[: len(self.messages) - event.get("dropped", 0)] + event["messages"]
            self.tools = event.get("tools") or self.tools
            self.open_turn = None
            if event.get("replaced"):
                self.shortened_turns.append(event["turn"])
        elif event["kind"] == "reply":
            self.replies[event["turn"]] = from_plain(Reply, event["reply"])
            self.open_turn = event["turn"]
        elif event["kind"] == "tool_call":
            self.results[event["turn"], event["index"]] = (event["call"]["id"], ToolResult(text="", ok=False))
        elif event["kind"] == "tool_result":
            where = event["turn"], event["index"]
            self.results[where] = (self.results[where][0], from_plain(ToolResult, event["result"]))
            self.kernels |= {event["solution_sha256"]} - {None}

    def plain(self) -> dict[str, Any]:
        """The part of a line that is about this conversation."""
        messages = [_chat(message) for message in [*self.messages, *self._ending()]]
        while messages[-1]["role"] == "user":  # what the model was told, and had no reply to
            messages.pop()
        said = (message for message in messages if message["role"] == "assistant")
        for message, reply in zip(said, self.replies.values(), strict=True):
            if reply.reasoning:
                message["reasoning_content"] = reply.reasoning
        return {
            "conversation": self.name,
            "messages": messages,
            "tools": self.tools,
            "turn_rewards": [self._reward(turn) for turn in self.replies],
            "shortened_turns": self.shortened_turns,
        }

    def _ending(self) -> list[Message]:
        """The last reply with the calls that were answered, and their answers."""
        if self.open_turn is None:
            return []
        reply = self.replies[self.open_turn]
        if not self.tools:
            return [text_message(reply, kernel_in(reply))]
        answers = {
            index: {"role": "tool", "tool_call_id": call.id, "content": self.results[self.open_turn, index][1].text}
            for index, call in enumerate(reply.tool_calls)
            if self.results.get((self.open_turn, index), ("",))[0] == call.id
        }
        message = assistant_message(reply)
        if reply.tool_calls:
            message["tool_calls"] = [message["tool_calls"][index] for index in answers]
        return [message, *answers.values()]

    def _reward(self, turn: int) -> float | None:
        """The best of a turn's kernels by the verdicts of its tools; None when it had none."""
        verdicts = [
            result.evaluation for (of, _), (_, result) in self.results.items() if of == turn and result.evaluation
        ]
        return max(map(reward, verdicts)) if verdicts else None


def _read(events: Iterable[Event]) -> list[_Dialogue]:
    dialogues: dict[str, _Dialogue] = {}
    name_of_turn: dict[int, str] = {}
    for event in events:
        if event["kind"] == "request":
            name_of_turn[event["turn"]] = conversation_of(event)
        if event.get("turn") in name_of_turn:
            name = name_of_turn[event["turn"]]
            dialogues.setdefault(name, _Dialogue(name=name)).add(event)
    return [item for item in dialogues.values() if item.replies]


def _chat(message: Message) -> Message:
    """Without what only its provider understands, such as signed thinking, and without an empty list of calls."""
    kept = {name: message[name] for name in _CHAT_FIELDS if name in message}
    if not kept.get("tool_calls", True):
        del kept["tool_calls"]
    return kept


def _text_only(value: Any) -> Any:
    """Halves of surrogate pairs, which a model may write and not every reader of JSON takes, become question marks."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_text_only(item) for item in value]
    if isinstance(value, dict):
        return {key: _text_only(item) for key, item in value.items()}
    return value

"""Reads a trajectory back as turns, calls and kernels, in the order in which they happened."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.protocols import Reply, ToolCall, ToolResult
from agents.requests import MAIN, conversation_of
from evaluation.serialize import from_plain
from evaluation.verdict import Evaluation, Profile
from orchestrator.store.journal import read_events, until_attempt

TEXT_CHARS = 200_000
DIFF_LINES = 400
DIFF_SOURCE_LINES = 5_000


@dataclass(slots=True, kw_only=True)
class Argument:
    """One argument of a call; `kernel` is the number of the kernel whose source it is."""

    name: str
    text: str
    kernel: int | None = None
    repeated: bool = False
    """Whether an earlier call had the same source."""


@dataclass(slots=True, kw_only=True)
class Call:
    """One tool call and its result; `result` is None where the cell ended before there was one."""

    name: str
    arguments: list[Argument]
    result: ToolResult | None = None

    @property
    def outcome(self) -> str:
        """`ok`, `failed`, `refused` or `no result`."""
        if self.result is None:
            return "no result"
        return "refused" if self.result.refused else "ok" if self.result.ok else "failed"


@dataclass(slots=True, kw_only=True)
class Turn:
    """One request and all that followed from it."""

    number: int
    prompts: list[tuple[str, str]] = field(default_factory=list)
    """(role, text) of the messages added for this turn; replies and tool results are shown where they arose."""
    conversation: str = ""
    """Its name, where the agent had several with the model."""
    shortened: list[tuple[str, str]] = field(default_factory=list)
    """(role, text) of earlier messages as they stood from this turn on, shortened to fit into the model's context."""
    reply: Reply | None = None
    calls: dict[int, Call] = field(default_factory=dict)
    first_t: float = 0.0
    last_t: float = 0.0
    asked: bool = False
    """Whether a model was asked; the baseline asks none."""
    resumed: bool = False
    """Whether another process took the cell over within this turn."""
    final: bool = False

    @property
    def llm_s(self) -> float:
        """Seconds that the model took."""
        return self.reply.wall_s if self.reply else 0.0

    @property
    def tools_s(self) -> float:
        """Seconds that the tools took."""
        return sum(call.result.wall_s for call in self.calls.values() if call.result)

    @property
    def total_s(self) -> float:
        """Seconds from request to last event; after a take-over, when the clock ran on unattended, model plus tools."""
        parts_s = self.llm_s + self.tools_s
        return parts_s if self.resumed else max(parts_s, self.last_t - self.first_t)


@dataclass(slots=True, kw_only=True)
class Kernel:
    """One distinct source, numbered in order of appearance, with every verdict on it."""

    number: int
    sha256: str
    source: str
    turn: int | None
    """Where it first appeared; None for one that no call shows."""
    verdicts: list[tuple[str, Evaluation]] = field(default_factory=list)
    diff: list[tuple[str, str]] = field(default_factory=list)
    """(`add`, `del`, `hunk` or `same`, line) against the kernel before."""


@dataclass(slots=True, kw_only=True)
class Story:
    """All of a trajectory that a page shows."""

    turns: list[Turn] = field(default_factory=list)
    kernels: dict[str, Kernel] = field(default_factory=dict)
    grades: list[tuple[str, str, Evaluation]] = field(default_factory=list)
    """(purpose, sha256, evaluation) in order."""


def read_story(cell_dir: Path, attempt: int) -> Story:
    """Read trajectory.jsonl, as far as the record of this attempt goes, and solutions/ of one cell."""
    story = Story()
    turns: dict[int, Turn] = {}
    newest: Turn | None = None
    for event in until_attempt(read_events(cell_dir / "trajectory.jsonl"), attempt):
        kind = event["kind"]
        if kind == "start" and newest is not None:
            newest.resumed = True
        elif kind == "grade":
            evaluation = from_plain(Evaluation, event["evaluation"])
            story.grades.append((event["purpose"], event["solution_sha256"], evaluation))
        elif "turn" in event:
            newest = turns.setdefault(event["turn"], Turn(number=event["turn"], first_t=event["t"]))
            newest.last_t = event["t"]
            _add_to_turn(newest, event, story)
    story.turns = [turns[number] for number in sorted(turns)]
    if story.turns:
        story.turns[-1].final = True
    _add_graded_kernels(story, cell_dir / "solutions")
    _add_diffs(story.kernels.values())
    return story


def earlier_profiles(story: Story) -> list[tuple[str, Profile]]:
    """(number of the turn, profile) of every one that a tool gave, in order."""
    return [
        (str(turn.number), call.result.evaluation.profile)
        for turn in story.turns
        for call in turn.calls.values()
        if call.result and call.result.evaluation and call.result.evaluation.profile
    ]


def _add_to_turn(turn: Turn, event: dict[str, Any], story: Story) -> None:
    kind = event["kind"]
    if kind == "request":
        turn.asked = True
        name = conversation_of(event)
        turn.conversation = name if name != MAIN else ""
        turn.shortened = [
            (replaced["message"]["role"], _message_text(replaced["message"])) for replaced in event.get("replaced", [])
        ]
        turn.prompts = [
            (message["role"], _message_text(message))
            for message in event["messages"]
            if message["role"] not in ("assistant", "tool")
        ]
    elif kind == "reply":
        turn.reply = from_plain(Reply, event["reply"])
    elif kind == "tool_call":
        call = from_plain(ToolCall, event["call"])
        turn.calls[event["index"]] = Call(name=call.name, arguments=_arguments(call, turn.number, story.kernels))
    elif kind == "tool_result":
        result = from_plain(ToolResult, event["result"])
        call_of_result = turn.calls.setdefault(event["index"], Call(name=event["name"], arguments=[]))
        call_of_result.result = result
        kernel = story.kernels.get(event["solution_sha256"] or "")
        if kernel is not None and result.evaluation is not None:
            kernel.verdicts.append((event["name"], result.evaluation))


def _message_text(message: dict[str, Any]) -> str:
    """What a message says, its calls included."""
    texts = [message.get("content") or ""]
    texts += [f"{call['function']['name']} {call['function']['arguments']}" for call in message.get("tool_calls", [])]
    return "\n".join(text for text in texts if text)


def _arguments(call: ToolCall, turn: int, kernels: dict[str, Kernel]) -> list[Argument]:
    """Take the arguments apart; text that is no JSON object is shown as it came."""
    try:
        parsed = json.loads(call.arguments or "{}")
    except json.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict):
        return [Argument(name="arguments (not a JSON object)", text=call.arguments)]
    return [_argument(name, value, turn, kernels) for name, value in parsed.items()]


def _argument(name: str, value: Any, turn: int, kernels: dict[str, Kernel]) -> Argument:
    if name == "kernel_id" and isinstance(value, str):
        number = next((kernel.number for kernel in kernels.values() if kernel.sha256[:12] == value), None)
        return Argument(name=name, text=value, kernel=number, repeated=True)
    if name != "kernel_code" or not isinstance(value, str):
        return Argument(name=name, text=value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    sha256 = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    repeated = sha256 in kernels
    number = kernels[sha256].number if repeated else len(kernels) + 1
    kernels.setdefault(sha256, Kernel(number=number, sha256=sha256, source=value, turn=turn))
    return Argument(name=name, text=value, kernel=number, repeated=repeated)


def _add_graded_kernels(story: Story, solutions: Path) -> None:
    """Add what no tool call showed, such as the baseline agent's kernel, and the grades of all."""
    for purpose, sha256, evaluation in story.grades:
        if sha256 not in story.kernels:
            path = solutions / f"{sha256[:12]}.py"
            if not path.exists():
                continue
            number = len(story.kernels) + 1
            source = path.read_text(encoding="utf-8")
            story.kernels[sha256] = Kernel(number=number, sha256=sha256, source=source, turn=None)
        story.kernels[sha256].verdicts.append((f"grade ({purpose})", evaluation))


def _add_diffs(kernels: Iterable[Kernel]) -> None:
    before: list[str] = []
    for kernel in kernels:
        lines = kernel.source.splitlines()
        if before and max(len(before), len(lines)) <= DIFF_SOURCE_LINES:
            changes = list(difflib.unified_diff(before, lines, lineterm="", n=2))[2:]
            kernel.diff = [(_kind(line), bounded(line)) for line in changes[:DIFF_LINES]]
            if len(changes) > DIFF_LINES:
                kernel.diff.append(("hunk", f"… {len(changes) - DIFF_LINES} more lines"))
        before = lines


def _kind(line: str) -> str:
    return {"+": "add", "-": "del", "@": "hunk"}.get(line[:1], "same")


def bounded(text: str) -> str:
    """Cut a text that no person reads to the end; trajectory.jsonl has the whole."""
    if len(text) <= TEXT_CHARS:
        return text
    half = TEXT_CHARS // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n… {left_out:,} characters left out, whole in trajectory.jsonl …\n{text[-half:]}"

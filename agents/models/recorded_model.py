"""A model that replays a transcript, so that a sweep can be run and tested without a provider."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from agents.errors import AgentConfigError
from agents.protocols import Message, Reply, ToolCall, Usage
from evaluation.serialize import from_plain


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One tool call; `arguments` is an object, or a string that is passed on as it stands."""

    name: str
    arguments: Any = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedReply:
    """One turn. Without `usage` its tokens are unknown."""

    reasoning: str = ""
    text: str = ""
    tool_calls: list[RecordedCall] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    finish_reason: str = "tool_calls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The file, as YAML: `kernels` is a place for sources that several replies share through YAML's anchors."""

    origin: str
    """Who wrote the replies."""
    problem: str
    replies: list[RecordedReply]
    kernels: dict[str, str] = field(default_factory=dict)


def read_transcript(path: Path) -> Transcript:
    """Raises AgentConfigError, in one sentence, when there is no such file or it has another form."""
    if not path.exists():
        have = ", ".join(sorted(other.stem for other in path.parent.glob("*.yaml"))) or "no transcript at all"
        raise AgentConfigError(f"there is no transcript {path}; that folder has {have}")
    try:
        return from_plain(Transcript, yaml.safe_load(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise AgentConfigError(f"{path} is not a transcript: {' '.join(str(error).split())}") from error


class RecordedModel:
    """Answers turn n with reply n, whatever the conversation says; beyond the end it says that it has ended."""

    knows_cost = False

    def __init__(self, transcript: Transcript, name: str = "recorded") -> None:
        self.name = name
        self._replies = transcript.replies
        self.counts_tokens = all(
            reply.usage.prompt_tokens is not None and reply.usage.completion_tokens is not None
            for reply in transcript.replies
        )

    def query(
        self,
        messages: list[Message],
        tools: list[dict[str, Any]],  # noqa: ARG002
        tool_choice: str = "auto",  # noqa: ARG002
        sample: int = 0,  # noqa: ARG002
    ) -> Reply:
        """The reply with the number of the assistant messages so far."""
        turn = sum(message["role"] == "assistant" for message in messages)
        if turn >= len(self._replies):
            return Reply(text="The recording ends here.", usage=Usage(prompt_tokens=0, completion_tokens=0))
        recorded = self._replies[turn]
        calls = [
            ToolCall(id=f"call_{turn}_{index}", name=call.name, arguments=_raw(call.arguments))
            for index, call in enumerate(recorded.tool_calls)
        ]
        return Reply(
            text=recorded.text,
            reasoning=recorded.reasoning,
            tool_calls=calls,
            usage=recorded.usage,
            finish_reason=recorded.finish_reason,
            model_version="recording",
        )


def _raw(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)

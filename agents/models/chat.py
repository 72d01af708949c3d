"""OpenAI's chat completions: from a conversation to the arguments of a request, from its body to an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.errors import ProviderCause, ProviderError
from agents.models.reasoning import of_message, to_echo
from agents.protocols import Message, ToolCall
from agents.settings import ModelSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a reply says, in any protocol."""

    text: str
    reasoning: str
    finish_reason: str
    tool_calls: list[ToolCall] = field(default_factory=list)
    echo: dict[str, Any] = field(default_factory=dict)


def arguments(
    sampling: Mapping[str, Any], messages: Sequence[Message], tools: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Arguments of `litellm.completion`, but for those that say where to send it."""
    return {**sampling, "messages": list(messages), **({"tools": list(tools)} if tools else {})}


def answer(settings: ModelSettings, body: dict[str, Any]) -> Answer:
    """Read a chat completion. Raises ProviderError when it holds no message."""
    choices = body.get("choices") or []
    if not choices:
        raise ProviderError(ProviderCause.OUTAGE, f"{settings.name} answered without any choice")
    message = choices[0].get("message") or {}
    reasoning, text = of_message(message)
    calls = [
        ToolCall(
            id=call.get("id") or f"call_{index}",
            name=call["function"].get("name") or "",
            arguments=call["function"].get("arguments") or "",
        )
        for index, call in enumerate(message.get("tool_calls") or [])
    ]
    return Answer(
        text=text,
        reasoning=reasoning,
        finish_reason=choices[0].get("finish_reason") or "",
        tool_calls=calls,
        echo=to_echo(message, reasoning, settings.reasoning_back),
    )

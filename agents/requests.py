"""What was sent to a model, and how a journal says it: each request by its difference to the one before it.

Within a conversation messages are only added, or replaced in place (see `agents.window`), so that the journal grows
with what is new and every request can still be rebuilt to the letter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from agents.protocols import Message

MAIN = "main"
"""The conversation of an agent that has only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question to a model, whole."""

    conversation: str = MAIN
    messages: list[Message] = field(default_factory=list)
    tools: list[dict[str, Any]] = field(default_factory=list)
    """OpenAI function schemas; none for a model that answers in text."""
    tool_choice: str = "auto"


def difference(before: Request | None, request: Request) -> dict[str, Any]:
    """The fields of the event that turns `before` into `request`. `tools` is None where they are as before.

    Agents drop no message; what a newer program, going on with an older one's cell, leaves out is counted in `dropped`.
    """
    old = before.messages if before else []
    return {
        "conversation": request.conversation,
        "messages": request.messages[len(old) :],
        "replaced": [
            {"index": index, "message": new}
            for index, (was, new) in enumerate(zip(old, request.messages, strict=False))
            if was is not new and was != new
        ],
        "dropped": max(0, len(old) - len(request.messages)),
        "tools": None if before is not None and before.tools == request.tools else request.tools,
        "tool_choice": request.tool_choice,
    }


def applied(before: Request | None, event: dict[str, Any]) -> Request:
    """The request that a `request` event stands for, given the one before it in its conversation."""
    old = before.messages if before else []
    messages = old[: len(old) - event.get("dropped", 0)]
    for replaced in event.get("replaced", []):
        messages[replaced["index"]] = replaced["message"]
    tools = event.get("tools")
    return Request(
        conversation=conversation_of(event),
        messages=messages + event["messages"],
        tools=tools if tools is not None else before.tools if before else [],
        tool_choice=event.get("tool_choice", "auto"),
    )


def conversation_of(event: dict[str, Any]) -> str:
    """The conversation of a `request` event."""
    name: str = event.get("conversation", MAIN)
    return name


def requests_sent(events: Iterable[dict[str, Any]]) -> dict[int, Request]:
    """Turn -> exactly what was sent for it; where a turn was asked twice over, the last that was sent."""
    last: dict[str, Request] = {}
    found: dict[int, Request] = {}
    for event in events:
        if event["kind"] == "request":
            name = conversation_of(event)
            found[event["turn"]] = last[name] = applied(last.get(name), event)
    return found

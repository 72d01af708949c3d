"""Keeps a conversation within what the model can hold, by one rule that depends on the trajectory alone.

When the next request would not fit, messages are shortened from the oldest on until it fits with room to spare (so
that this happens seldom, and the provider's cache of the beginning stays good in between). Kernels become their id,
which the tools take in a kernel's place; long texts of tools become their beginning and end. Whole stay: the opening,
everything since the model's last reply, the latest kernel, and the latest result of each tool.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agents.conversation import FENCED
from agents.errors import AgentConfigError
from agents.protocols import Message
from agents.settings import ModelSettings
from agents.tools.arguments import parse_arguments
from agents.tools.result_text import bounded
from agents.trajectory import KERNEL_ID_CHARS

FIRST_CHARS_PER_TOKEN = 3.0
"""Before any reply has said how many tokens its request had; source code has rather more characters a token."""
LOW_WATER = 0.7
"""Share of the room that shortening aims at."""
SHORT_CHARS = 600
"""Texts up to this length are left as they are."""
OPENING = 2
"""System message and problem."""


@dataclass(slots=True, kw_only=True)
class Window:
    """One conversation's share of the model's context. `room_tokens` is for the request; None: nobody knows."""

    room_tokens: int | None
    _chars_per_token: float = field(default=FIRST_CHARS_PER_TOKEN, init=False)

    def fit(self, messages: list[Message], tools: list[dict[str, Any]]) -> list[Message]:
        """`messages`, shortened if the request would not fit. A list of new messages; none is changed in place."""
        if self.room_tokens is None:
            return messages
        room_chars = self.room_tokens * self._chars_per_token
        chars = request_chars(messages, tools)
        if chars <= room_chars:
            return messages
        fitted = list(messages)
        for index in _open_to_change(messages):
            fitted[index] = shortened(messages[index])
            chars += _chars(fitted[index]) - _chars(messages[index])
            if chars <= LOW_WATER * room_chars:
                break
        return fitted

    def learn(self, messages: list[Message], tools: list[dict[str, Any]], prompt_tokens: int | None) -> None:
        """Take the model's own count of the request that it has just answered, if it gave one."""
        if prompt_tokens:
            self._chars_per_token = request_chars(messages, tools) / prompt_tokens


def room_tokens(model: ModelSettings) -> int | None:
    """What is left for a request: the context less the longest reply; without a limit a quarter is kept for it.

    Raises AgentConfigError when that is nothing.
    """
    context, reply = model.context_tokens, model.max_tokens
    if context is None:
        return None
    if reply is not None and reply >= context:
        raise AgentConfigError(
            f"model {model.name!r}: max_tokens={reply} leaves nothing of context_tokens={context} for the conversation"
        )
    return context - (reply if reply is not None else math.ceil(context / 4))


def request_chars(messages: list[Message], tools: list[dict[str, Any]]) -> int:
    """The size that tokens are estimated from."""
    return sum(map(_chars, messages)) + _chars(tools)


def _chars(part: Any) -> int:
    return len(json.dumps(part, ensure_ascii=False))


def _open_to_change(messages: list[Message]) -> Iterator[int]:
    """Indices of messages that may be shortened, the oldest first."""
    latest: dict[str, int] = {}
    """Tool, or `kernel` -> index of the last message that has its text."""
    tool_of: dict[str, str] = {}
    last_reply = 0
    for index, message in enumerate(messages):
        if message["role"] == "assistant":
            last_reply = index
            tool_of |= {call["id"]: call["function"]["name"] for call in message.get("tool_calls", [])}
            if shortened(message) != message:
                latest["kernel"] = index
        elif message["role"] == "tool":
            latest[tool_of.get(message["tool_call_id"], "")] = index
    return (index for index in range(OPENING, last_reply) if index not in latest.values())


def shortened(message: Message) -> Message:
    """The same message with kernels named by their id, and other long texts cut in the middle."""
    if message["role"] != "assistant":
        content = message["content"]
        return message if len(content) <= SHORT_CHARS else {**message, "content": bounded(content, SHORT_CHARS)}
    short = {**message, "content": FENCED.sub(_block_as_id, message["content"])}
    if "tool_calls" in message:
        short["tool_calls"] = [_call_by_id(call) for call in message["tool_calls"]]
    return short


def _call_by_id(call: dict[str, Any]) -> dict[str, Any]:
    arguments = parse_arguments(call["function"]["arguments"])
    kernel = arguments.pop("kernel_code", None)
    if not isinstance(kernel, str) or len(kernel) <= SHORT_CHARS:
        return call
    by_id = json.dumps({**arguments, "kernel_id": _kernel_id(kernel)})
    return {**call, "function": {**call["function"], "arguments": by_id}}


def _block_as_id(match: re.Match[str]) -> str:
    body = match["body"]
    if len(body) <= SHORT_CHARS:
        return match[0]
    lines = len(body.splitlines())
    return f"{match['fence']}\n[kernel {_kernel_id(body)}: {lines} lines, left out here]\n{match['fence']}"


def _kernel_id(source: str) -> str:
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:KERNEL_ID_CHARS]

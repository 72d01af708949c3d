"""Tokens of a reply, as the provider counts them, and of a request before it is sent, at most."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.protocols import Message, Usage

_PER_MESSAGE = 16
"""More than any chat template wraps one message in."""
_PER_REQUEST = 1024
"""More than any provider adds of its own when tools are offered; Anthropic's text about them is the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What one reply used; unknown is None. `cached` and `written` are parts of `prompt`, `reasoning` of the other."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    written: int | None = None
    """Written to the provider's cache, which may cost more."""
    reasoning: int | None = None


def tokens_of(usage: Mapping[str, Any] | None) -> Tokens:
    """Read the `usage` of a chat completion or of a response. A prompt of 0 tokens is a count that was not made."""
    given = usage or {}
    prompt = given.get("prompt_tokens", given.get("input_tokens"))
    completion = given.get("completion_tokens", given.get("output_tokens"))
    total = given.get("total_tokens")
    if not prompt:
        return Tokens()
    if total and completion is not None and total > prompt + completion:
        completion = total - prompt  # some providers count reasoning in the total only
    inside = given.get("prompt_tokens_details") or given.get("input_tokens_details") or {}
    outside = given.get("completion_tokens_details") or given.get("output_tokens_details") or {}
    return Tokens(
        prompt=prompt,
        completion=completion,
        cached=inside.get("cached_tokens"),
        written=inside.get("cache_creation_tokens", inside.get("cache_write_tokens")),
        reasoning=outside.get("reasoning_tokens"),
    )


class PromptBound:
    """An upper bound of a request's prompt tokens, without a tokenizer.

    No tokenizer of use makes more tokens than there are bytes. What the last reply's usage counted is taken from
    there; only what was added since is counted in bytes.
    """

    def __init__(self) -> None:
        self._sent: list[Message] = []
        self._tools: Sequence[Any] = ()
        self._counted: int | None = None

    def of(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> int:
        """The most tokens that a request with these messages has."""
        known = len(self._sent)
        if self._counted is None or self._tools != tools or list(messages[:known]) != self._sent:
            return _PER_REQUEST + _bytes(tools) + sum(map(_message_bytes, messages))
        added = list(messages[known:])
        if added and added[0]["role"] == "assistant":  # the reply itself was counted
            del added[0]
        return self._counted + sum(map(_message_bytes, added))

    def learn(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], usage: Usage) -> None:
        """Take note of what the provider counted for a request and its reply."""
        self._sent, self._tools, self._counted = list(messages), tools, None
        if usage.prompt_tokens is not None and usage.completion_tokens is not None:
            self._counted = usage.prompt_tokens + usage.completion_tokens


def _message_bytes(message: Message) -> int:
    return _PER_MESSAGE + _bytes(message)


def _bytes(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))

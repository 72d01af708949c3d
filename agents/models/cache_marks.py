"""Marks for providers that cache a conversation's beginning only up to where they are told to, as Anthropic does.

They say nothing to the model and change no reply, so the trajectory holds the messages without them.
"""

from __future__ import annotations

from agents.protocols import Message

_MARK = {"type": "ephemeral"}


def marked(messages: list[Message]) -> list[Message]:
    """The same messages with up to three marks, in the form that LiteLLM translates; providers take four.

    One ends the system message, which cells of other problems share, one the problem, and one the latest message,
    from where the next request of the conversation goes on.
    """
    places = {0, 1, len(messages) - 1}
    return [_marked(message) if index in places else message for index, message in enumerate(messages)]


def _marked(message: Message) -> Message:
    if not message["content"]:
        return message  # an empty text cannot be marked
    if message["role"] == "tool":
        return {**message, "cache_control": _MARK}
    return {**message, "content": [{"type": "text", "text": message["content"], "cache_control": _MARK}]}

"""What a model thought aloud: told apart from what it says, and given back only where the provider wants it."""

from __future__ import annotations

from typing import Any

from agents.settings import ReasoningBack

_OPEN, _CLOSE = "<think>", "</think>"


def split_thinking(content: str) -> tuple[str, str]:
    """(reasoning, text) of a reply with an inline think block, which only counts where the reply begins.

    The opening tag may be missing, where the chat template has said it already; the closing one too, where the reply
    was cut in the middle of its thoughts.
    """
    text = content.strip()
    if text.startswith(_OPEN):
        inside, _, after = text.removeprefix(_OPEN).partition(_CLOSE)
        return inside.strip(), after.strip()
    before, closed, after = text.partition(_CLOSE)
    if closed and _OPEN not in before:
        return before.strip(), after.strip()
    return "", text


def of_message(message: dict[str, Any]) -> tuple[str, str]:
    """(reasoning, text) of a chat message, from whichever field or block the provider puts it in."""
    inline, text = split_thinking(message.get("content") or "")
    for field in ("reasoning_content", "reasoning"):  # the latter is vLLM's and OpenRouter's
        if isinstance(given := message.get(field), str) and given.strip():
            return given.strip(), text
    blocks = "\n".join(block.get("thinking") or "" for block in message.get("thinking_blocks") or []).strip()
    return blocks or inline, text


def to_echo(message: dict[str, Any], reasoning: str, back: ReasoningBack) -> dict[str, Any]:
    """The fields of a chat message that go back with it: blocks with a signature, and the text where it is wanted."""
    blocks = [block for block in message.get("thinking_blocks") or [] if block.get("signature") or block.get("data")]
    echo: dict[str, Any] = {"thinking_blocks": blocks} if blocks else {}
    if back is ReasoningBack.text and reasoning:
        echo["reasoning_content"] = reasoning
    return echo

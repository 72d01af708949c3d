"""OpenAI's responses protocol: the conversation is kept in the chat form and translated for every request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agents.errors import ProviderCause, ProviderError
from agents.models.chat import Answer
from agents.protocols import Message, ToolCall
from agents.settings import ModelSettings

_ITEMS = "response_items"
"""Where a message of ours keeps the order of a reply's items, and those of them that go back as they came."""


def arguments(
    sampling: Mapping[str, Any], messages: Sequence[Message], tools: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Arguments of `litellm.responses`, but for those that say where to send it. Nothing is kept by the provider."""
    given = {**sampling, "store": False, "input": [item for message in messages for item in _items(message)]}
    if "max_tokens" in given:
        given["max_output_tokens"] = given.pop("max_tokens")
    if "reasoning_effort" in given:
        given["reasoning"] = {"effort": given.pop("reasoning_effort"), "summary": "auto"}
        given["include"] = ["reasoning.encrypted_content"]
    if tools:
        given["tools"] = [{"type": "function", **tool["function"], "strict": False} for tool in tools]
    return given


def answer(settings: ModelSettings, body: dict[str, Any]) -> Answer:
    """Read a response. Raises ProviderError when it failed or holds nothing."""
    items = body.get("output") or []
    reason = (body.get("incomplete_details") or {}).get("reason")
    if body.get("status") == "failed" or (not items and not reason):
        said = (body.get("error") or {}).get("message") or "nothing"
        raise ProviderError(ProviderCause.OUTAGE, f"{settings.name} answered with {said}")
    calls = [
        ToolCall(id=_id(item, index), name=item.get("name") or "", arguments=item.get("arguments") or "")
        for index, item in enumerate(items)
        if item["type"] == "function_call"
    ]
    return Answer(
        text="\n".join(_texts(items, "message", "content")).strip(),
        reasoning="\n\n".join([*_texts(items, "reasoning", "summary"), *_texts(items, "reasoning", "content")]).strip(),
        finish_reason="length" if reason == "max_output_tokens" else reason or ("tool_calls" if calls else "stop"),
        tool_calls=calls,
        echo=_echo(items),
    )


def _texts(items: list[dict[str, Any]], kind: str, part: str) -> Iterator[str]:
    for item in items:
        if item["type"] == kind:
            yield from (piece["text"] for piece in item.get(part) or [] if piece.get("text"))


def _id(item: dict[str, Any], index: int) -> str:
    return item.get("call_id") or f"call_{index}"


def _echo(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Encrypted reasoning belongs before the item that it led to, so the order is kept with it."""
    if not any(item["type"] == "reasoning" and item.get("encrypted_content") for item in items):
        return {}
    kept: list[dict[str, Any]] = []
    for index, item in enumerate(items):
        if item["type"] == "reasoning" and item.get("encrypted_content"):
            kept.append({name: item[name] for name in ("type", "id", "summary", "encrypted_content") if name in item})
        elif item["type"] == "function_call":
            kept.append({"type": "function_call", "call_id": _id(item, index)})
        elif item["type"] == "message":
            kept.append({"type": "message"})
    return {_ITEMS: kept}


def _items(message: Message) -> Iterator[dict[str, Any]]:
    content = _text(message.get("content"))
    if message["role"] == "tool":
        yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": content}
        return
    if message["role"] != "assistant":
        yield {"role": message["role"], "content": content}
        return
    said = [{"role": "assistant", "content": content}] if content else []
    calls = {call["id"]: _call(call) for call in message.get("tool_calls") or []}
    for item in message.get(_ITEMS) or []:
        if item["type"] == "message":
            yield from said
            said = []
        elif item["type"] == "reasoning":
            yield item
        elif item["call_id"] in calls:
            yield calls.pop(item["call_id"])
    yield from said
    yield from calls.values()


def _call(call: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call["id"], **call["function"]}


def _text(content: Any) -> str:
    """The text of a message whose content may come in parts."""
    if isinstance(content, list):
        return "\n".join(part.get("text") or "" for part in content)
    return content or ""

"""Replies of a language model, and their bodies in the four protocols that model_server.py speaks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

MODEL_VERSION = "served-model-2026-01"
ENCRYPTED = "gAAAA-encrypted"
SIGNATURE = "c2lnbmVk"


class _Ask(Protocol):
    """What a body depends on."""

    @property
    def path(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def messages(self) -> list[dict[str, Any]]: ...
    @property
    def max_tokens(self) -> int | None: ...


@dataclass(frozen=True, kw_only=True)
class Call:
    """One tool call; `arguments` is the raw text."""

    name: str
    arguments: str = "{}"
    id: str | None = None


def call(name: str, **arguments: Any) -> Call:
    """A call with well-formed arguments."""
    return Call(name=name, arguments=json.dumps(arguments))


@dataclass(frozen=True, kw_only=True)
class Says:
    """One reply. Tokens that are None are counted: characters / 4, and no more than the request's limit."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    reasoning_in: str = "reasoning_content"
    """Chat completions: reasoning_content, reasoning, think (inline) or thinking_blocks."""
    finish: str | None = None
    states_usage: bool = True
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


def says(*calls: Call, **fields: Any) -> Says:
    """A reply with these calls."""
    return Says(calls=calls, **fields)


def render(reply: Says, ask: _Ask) -> tuple[tuple[int, int], dict[str, Any]]:
    """((prompt, completion) tokens, body) in the protocol of the request's path."""
    tokens = _tokens(reply, ask)
    if ask.path.endswith("/responses"):
        return tokens, _responses(reply, ask, tokens)
    if ask.path.endswith("/messages"):
        return tokens, _messages(reply, ask, tokens)
    if ask.path.endswith(":generateContent"):
        return tokens, _generate(reply, ask, tokens)
    return tokens, _chat(reply, ask, tokens)


def error_body(status: int, text: str) -> dict[str, Any]:
    """An error in OpenAI's form; a context overflow has its code."""
    if text == "CONTEXT":
        message = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
        error = {"message": message, "type": "invalid_request_error", "code": "context_length_exceeded"}
        return {"error": {**error, "param": "messages"}}
    return {"error": {"message": text, "type": "test", "code": None, "param": None}}


def _tokens(reply: Says, ask: _Ask) -> tuple[int, int]:
    prompt = reply.prompt_tokens
    if prompt is None:
        prompt = len(json.dumps(ask.messages)) // 4
    completion = reply.completion_tokens
    if completion is None:
        spoken = len(reply.text) + len(reply.reasoning) + sum(len(one.arguments) for one in reply.calls)
        completion = min(1 + spoken // 4, ask.max_tokens or 10**9)
    return prompt, completion


def _ids(reply: Says, ask: _Ask) -> list[tuple[str, Call]]:
    return [(one.id or f"call_{ask.number}_{index}", one) for index, one in enumerate(reply.calls)]


def _chat(reply: Says, ask: _Ask, tokens: tuple[int, int]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.reasoning and reply.reasoning_in == "think":
        message["content"] = f"<think>\n{reply.reasoning}\n</think>\n\n{reply.text}"
    elif reply.reasoning and reply.reasoning_in == "thinking_blocks":
        message["thinking_blocks"] = [{"type": "thinking", "thinking": reply.reasoning, "signature": SIGNATURE}]
    elif reply.reasoning:
        message[reply.reasoning_in] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": one.name, "arguments": one.arguments}}
            for id, one in _ids(reply, ask)
        ]
    finish = reply.finish or ("tool_calls" if reply.calls else "stop")
    body: dict[str, Any] = {
        "id": f"chatcmpl-{ask.number}",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL_VERSION,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    if reply.states_usage:
        usage: dict[str, Any] = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
        usage["total_tokens"] = sum(tokens)
        if reply.cached_tokens is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": reply.cached_tokens}
        if reply.reasoning_tokens is not None:
            usage["completion_tokens_details"] = {"reasoning_tokens": reply.reasoning_tokens}
        body["usage"] = usage
    return body


def _responses(reply: Says, ask: _Ask, tokens: tuple[int, int]) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if reply.reasoning:
        summary = [{"type": "summary_text", "text": reply.reasoning}]
        item = {"type": "reasoning", "id": f"rs_{ask.number}", "summary": summary}
        output.append({**item, "encrypted_content": ENCRYPTED})
    if reply.text:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        item = {"type": "message", "id": f"msg_{ask.number}", "role": "assistant", "status": "completed"}
        output.append({**item, "content": content})
    for index, (id, one) in enumerate(_ids(reply, ask)):
        item = {"type": "function_call", "id": f"fc_{ask.number}_{index}", "call_id": id, "status": "completed"}
        output.append({**item, "name": one.name, "arguments": one.arguments})
    cut = reply.finish == "length"
    body: dict[str, Any] = {
        "id": f"resp_{ask.number}",
        "object": "response",
        "created_at": 1,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "model": MODEL_VERSION,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    if reply.states_usage:
        body["usage"] = {
            "input_tokens": tokens[0],
            "input_tokens_details": {"cached_tokens": reply.cached_tokens or 0},
            "output_tokens": tokens[1],
            "output_tokens_details": {"reasoning_tokens": reply.reasoning_tokens or 0},
            "total_tokens": sum(tokens),
        }
    return body


def _messages(reply: Says, ask: _Ask, tokens: tuple[int, int]) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if reply.reasoning:
        content.append({"type": "thinking", "thinking": reply.reasoning, "signature": SIGNATURE})
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    for id, one in _ids(reply, ask):
        content.append({"type": "tool_use", "id": id, "name": one.name, "input": json.loads(one.arguments)})
    stop = {"length": "max_tokens", None: "tool_use" if reply.calls else "end_turn"}
    return {
        "id": f"msg_{ask.number}",
        "type": "message",
        "role": "assistant",
        "model": MODEL_VERSION,
        "content": content,
        "stop_reason": stop.get(reply.finish, reply.finish),
        "stop_sequence": None,
        "usage": {
            "input_tokens": tokens[0] - (reply.cached_tokens or 0),
            "output_tokens": tokens[1],
            "cache_read_input_tokens": reply.cached_tokens or 0,
            "cache_creation_input_tokens": 0,
        },
    }


def _generate(reply: Says, ask: _Ask, tokens: tuple[int, int]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if reply.reasoning:
        parts.append({"text": reply.reasoning, "thought": True})
    if reply.text:
        parts.append({"text": reply.text})
    for one in reply.calls:
        function = {"name": one.name, "args": json.loads(one.arguments)}
        parts.append({"functionCall": function, "thoughtSignature": SIGNATURE})
    thoughts = reply.reasoning_tokens or 0
    return {
        "candidates": [
            {
                "index": 0,
                "content": {"role": "model", "parts": parts},
                "finishReason": "MAX_TOKENS" if reply.finish == "length" else "STOP",
            }
        ],
        "usageMetadata": {
            "promptTokenCount": tokens[0],
            "candidatesTokenCount": tokens[1] - thoughts,
            "thoughtsTokenCount": thoughts,
            "cachedContentTokenCount": reply.cached_tokens or 0,
            "totalTokenCount": sum(tokens),
        },
        "modelVersion": MODEL_VERSION,
        "responseId": f"gen-{ask.number}",
    }

"""Cache marks as LiteLLM passes them on."""

from __future__ import annotations

from typing import Any

import pytest
from agent_cell import call, says
from model_server import Http, model_server

from agents.conversation import assistant_message, tool_message, user_message
from agents.models.cache_marks import marked
from agents.models.litellm_model import LitellmModel
from agents.models.open_gate import OpenGate
from agents.protocols import Message, ToolResult
from agents.settings import ModelSettings

# LiteLLM's own code and its dependencies warn about things that are not ours to mend.
pytestmark = pytest.mark.filterwarnings("default")

MARK = {"type": "ephemeral"}
OPENING: list[Message] = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]


def for_anthropic(messages: list[Message]) -> dict[str, Any]:
    """The body that LiteLLM would send."""
    from litellm import AnthropicConfig

    return AnthropicConfig().transform_request(
        model="claude-sonnet-4-5", messages=messages, optional_params={"max_tokens": 9}, litellm_params={}, headers={}
    )


def marks(body: dict[str, Any]) -> list[tuple[str, str]]:
    """(type, text or call id) of every marked block, in order."""
    blocks = [*body["system"], *(block for message in body["messages"] for block in message["content"])]
    return [(b["type"], b.get("text") or b["tool_use_id"]) for b in blocks if b.get("cache_control") == MARK]


def test_the_opening_is_marked_and_the_latest_message() -> None:
    asked = [call("compile_kernel", id=name, kernel_code="k") for name in ("a", "b")]
    results = [tool_message(each, ToolResult(text=each.id, ok=True)) for each in asked]
    messages = [*OPENING, assistant_message(says(*asked)), *results]
    body = for_anthropic(marked(messages))
    assert marks(body) == [("text", "s"), ("text", "u"), ("tool_result", "b")]
    assert marks(for_anthropic(marked([*messages, user_message("notice")])))[2:] == [("text", "notice")]
    assert marks(for_anthropic(marked(OPENING))) == [("text", "s"), ("text", "u")]


def test_marks_change_nothing_else() -> None:
    messages = [*OPENING, {"role": "assistant", "content": ""}, user_message("more")]
    kept = [dict(message) for message in messages]
    bare = for_anthropic(messages)
    body = for_anthropic(marked(messages))
    assert messages == kept
    for block in [*body["system"], *(block for message in body["messages"] for block in message["content"])]:
        block.pop("cache_control", None)
    assert body == bare


@pytest.mark.parametrize("cache_marks", [True, False])
def test_they_are_sent_where_the_model_asks_for_them_and_what_was_read_from_the_cache_is_counted_apart(
    cache_marks: bool,
) -> None:
    usage = {"input_tokens": 4, "output_tokens": 2, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 6}
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "served", "stop_reason": "end_turn"}
    answer = Http(body={**body, "content": [{"type": "text", "text": "hi"}], "usage": usage})
    with model_server([answer]) as server:
        settings = ModelSettings(
            name="m",
            litellm_model="anthropic/claude-sonnet-5-5",
            base_url=server.url.removesuffix("/v1"),
            max_tokens=9,
            cache_marks=cache_marks,
        )
        reply = LitellmModel(settings, OpenGate()).query(OPENING, [])
        (sent,) = server.requests
    assert "tools" not in sent and "tool_choice" not in sent
    assert marks(sent) == ([("text", "s"), ("text", "u")] if cache_marks else [])
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.cached_tokens) == (100, 2, 90)

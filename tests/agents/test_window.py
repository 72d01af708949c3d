"""What of a conversation is shortened when it no longer fits, and what never is."""

from __future__ import annotations

import copy
import json
import random

import pytest
from agent_cell import Cell, call, says

from agents.conversation import assistant_message, text_message, tool_message, user_message
from agents.errors import AgentConfigError
from agents.protocols import ExitStatus, Message, Reply, ToolResult, Usage
from agents.requests import requests_sent
from agents.settings import ModelSettings
from agents.trajectory import Trajectory
from agents.window import LOW_WATER, OPENING, SHORT_CHARS, Window, request_chars, room_tokens

TOOLS = ["compile_kernel", "run_correctness"]
HEAD = [{"role": "system", "content": "s" * 2000}, {"role": "user", "content": "u" * 2000}]


def kernel(number: int) -> str:
    return f"good {number}\n" + "# a comment\n" * 200


def session(turns: int, text_chars: int = 3000) -> list[Message]:
    """A session of so many turns, each with a new kernel and a long result; call ids are the same in all of them."""
    messages = list(HEAD)
    for turn in range(turns):
        asked = call(TOOLS[turn % 2], kernel_code=kernel(turn))
        messages.append(assistant_message(says(asked)))
        messages.append(tool_message(asked, ToolResult(text=f"{turn}: " + "x" * text_chars, ok=True)))
    return messages


def changed(before: list[Message], after: list[Message]) -> list[int]:
    assert len(before) == len(after)
    return [index for index, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]


def room_for(messages: list[Message], share: float) -> Window:
    return Window(room_tokens=int(request_chars(messages, []) * share / 3))


def test_what_fits_or_has_no_known_limit_is_sent_as_it_is() -> None:
    messages = session(9)
    assert room_for(messages, 1.01).fit(messages, []) is messages
    assert Window(room_tokens=None).fit(messages, []) is messages


def test_the_oldest_are_shortened_first_until_there_is_room_to_spare() -> None:
    messages = session(9)
    window = room_for(messages, 0.99)
    fitted = window.fit(messages, [])
    short = changed(messages, fitted)
    assert short == list(range(OPENING, OPENING + len(short))) and 2 < len(short) < 12
    chars, room_chars = request_chars(fitted, []), 3 * window.room_tokens
    longest = max(request_chars([message], []) for message in messages)
    assert LOW_WATER * room_chars - longest <= chars <= LOW_WATER * room_chars
    grown = [*fitted, *session(1)[OPENING:]]
    assert window.fit(grown, []) is grown


def test_never_shortened_are_the_opening_the_latest_of_each_and_all_since_the_last_reply() -> None:
    messages = session(9)
    first_specs, first_kernel = OPENING, OPENING + 2
    specs = call("get_gpu_specs")
    messages[first_specs:first_specs] = [
        assistant_message(says(specs)),
        tool_message(specs, ToolResult(text="specs " + "y" * 3000, ok=True)),
    ]
    two = [call("compile_kernel", id=name, kernel_id="0" * 12) for name in ("a", "b")]
    messages.append(assistant_message(says(*two)))
    messages += [tool_message(each, ToolResult(text="unread " + "z" * 3000, ok=True)) for each in two]
    fitted = Window(room_tokens=10).fit(messages, [])
    whole = set(range(len(messages))) - set(changed(messages, fitted))
    last_kernel, last_correctness = 20, 19
    assert whole == {0, 1, first_specs, first_specs + 1, last_correctness, last_kernel, 22, 23, 24}
    assert first_kernel not in whole
    assert (
        "compile_kernel" in json.dumps(messages[last_kernel])
        and kernel(8) in json.loads(fitted[last_kernel]["tool_calls"][0]["function"]["arguments"]).values()
    )


def test_a_shortened_call_names_the_kernel_by_the_id_under_which_it_is_kept(trajectory: Trajectory) -> None:
    messages = session(3)
    fitted = Window(room_tokens=10).fit(messages, [])
    arguments = json.loads(fitted[OPENING]["tool_calls"][0]["function"]["arguments"])
    assert arguments == {"kernel_id": trajectory.keep(kernel(0))[:12]}
    assert len(fitted[OPENING + 1]["content"]) <= SHORT_CHARS
    assert fitted[OPENING + 1]["content"].startswith("0: xx")


def test_a_code_block_becomes_a_line_that_names_its_kernel(trajectory: Trajectory) -> None:
    replies = [says(text=f"First.\n```python\n{kernel(turn)}```\nLast.") for turn in range(3)]
    messages = list(HEAD)
    for reply in replies:
        messages += [text_message(reply, None), user_message("told " + "x" * 3000)]
    fitted = Window(room_tokens=10).fit(messages, [])
    assert changed(messages, fitted) == [2, 3, 4, 5]
    kernel_id = trajectory.keep(kernel(0))[:12]
    assert fitted[2]["content"] == f"First.\n```\n[kernel {kernel_id}: 201 lines, left out here]\n```\nLast."
    assert fitted[3]["content"].startswith("told xx") and len(fitted[3]["content"]) <= SHORT_CHARS


def test_messages_are_replaced_and_never_changed() -> None:
    messages = session(9)
    before = copy.deepcopy(messages)
    once = room_for(messages, 0.9).fit(messages, [])
    assert messages == before and once != before
    assert room_for(messages, 0.9).fit(messages, []) == once


def test_the_models_own_count_of_tokens_is_taken_over() -> None:
    messages = session(9)
    window = room_for(messages, 1.2)
    window.learn(messages, [], request_chars(messages, []) // 2)
    assert window.fit(messages, []) is not messages
    window.learn(messages, [], request_chars(messages, []) // 4)
    assert window.fit(messages, []) is messages
    window.learn(messages, [], None)
    assert window.fit(messages, []) is messages


def test_the_room_is_the_context_less_the_longest_reply() -> None:
    assert room_tokens(ModelSettings(context_tokens=100_000, max_tokens=30_000)) == 70_000
    assert room_tokens(ModelSettings(context_tokens=100_000)) == 75_000
    assert room_tokens(ModelSettings(max_tokens=30_000)) is None
    with pytest.raises(AgentConfigError, match="model 'm': max_tokens=9 leaves nothing of context_tokens=9"):
        room_tokens(ModelSettings(name="m", context_tokens=9, max_tokens=9))


@pytest.mark.parametrize("seed", range(20))
def test_a_conversation_fits_after_it_was_shortened_or_has_nothing_left_to_shorten(seed: int) -> None:
    generator = random.Random(seed)
    messages = session(generator.randrange(1, 12), generator.choice([10, 700, 9000]))
    window = room_for(messages, generator.uniform(0.05, 1.2))
    fitted = window.fit(messages, [])
    tight = Window(room_tokens=1).fit(messages, [])
    assert request_chars(fitted, []) <= 3 * window.room_tokens + 3 or fitted == tight
    assert [message["role"] for message in fitted] == [message["role"] for message in messages]


def test_a_session_goes_on_with_the_id_that_took_a_kernels_place(cell: Cell, trajectory: Trajectory) -> None:
    """Through the whole loop: the first kernel is shortened away, and the model hands it in by its id."""

    def script(turn: int, messages: list[Message]) -> Reply:
        if turn < 4:
            usage = Usage(prompt_tokens=request_chars(messages, []) // 3, completion_tokens=10, cost_usd=0.0)
            return says(call("run_correctness", kernel_code=kernel(turn)), usage=usage)
        first = json.loads(messages[OPENING]["tool_calls"][0]["function"]["arguments"])
        return says(call("submit_kernel", **first))

    cell.model_settings = ModelSettings(context_tokens=3500, max_tokens=100)
    assert cell.loop(script, trajectory, turns=9).run() is ExitStatus.SUBMITTED
    assert cell.judge.asked[-1][0] == kernel(0)
    sent = requests_sent(trajectory.events)
    assert kernel(0) in json.loads(sent[1].messages[OPENING]["tool_calls"][0]["function"]["arguments"]).values()
    assert "kernel_id" in sent[4].messages[OPENING]["tool_calls"][0]["function"]["arguments"]

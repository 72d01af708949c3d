"""The export for training: what a line holds, and that a trainer can read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from finished_store import OVERRIDES, REPLIES, finished_store
from sweeps import call
from text_replies import find

from evaluation.verdict import Evaluation, Stage, Status
from orchestrator.cli.main import main
from orchestrator.report.report import finished_records
from orchestrator.report.trajectories import CORRECT_REWARD, reward, write_trajectories


def no_constant(name: str) -> None:
    pytest.fail(f"{name} is no JSON")


def exported(folder: Path, replies: list[dict[str, Any]], *overrides: str) -> list[dict[str, Any]]:
    """Run the planned cells, and read what is exported of them."""
    store = finished_store(folder, replies, *overrides)
    text = write_trajectories(store, finished_records(store)).read_text(encoding="utf-8")
    assert sorted(path.name for path in store.root.iterdir()) == ["cells", "trajectories.jsonl"]
    return [json.loads(line, parse_constant=no_constant) for line in text.splitlines()]


def check_conversation(part: dict[str, Any]) -> None:
    """What OpenAI's chat protocol and a trainer ask of messages."""
    messages = part["messages"]
    assert [message["role"] for message in messages[:2]] == ["system", "user"]
    assert messages[-1]["role"] in ("assistant", "tool")
    offered = {tool["function"]["name"] for tool in part["tools"]}
    waiting: list[str] = []
    for message in messages:
        assert isinstance(message["content"], str)
        assert set(message) <= {"role", "content", "tool_calls", "tool_call_id", "reasoning_content"}
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
            continue
        assert not waiting, "a call was not answered"
        for asked in message.get("tool_calls", []):
            assert asked["function"]["name"] in offered
            assert isinstance(json.loads(asked["function"]["arguments"]), dict)
            waiting.append(asked["id"])
    assert not waiting
    assert len(part["turn_rewards"]) == sum(message["role"] == "assistant" for message in messages)


@pytest.mark.parametrize("agent", OVERRIDES)
def test_every_agents_line_is_a_conversation_that_a_trainer_can_read(tmp_path: Path, agent: str) -> None:
    (line,) = exported(tmp_path, REPLIES, *OVERRIDES[agent])
    for part in (line, *line["others"]):
        check_conversation(part)
    correct = agent not in ("single_turn", "evolve")
    assert line["verdict"] == ("PASSED" if correct else "COMPILE_ERROR")
    assert line["reward"] == (pytest.approx(4.3) if correct else 0.0)
    assert line["agent"].startswith(agent) and line["uid"].startswith("24_row_softmax-recorded")
    assert len(line["others"]) == {"best_of_n": 1, "evolve": 3}.get(agent, 0)
    assert bool(line["tools"]) is (agent == "tool_loop")
    assert set(line["usage"]) == {
        "prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens", "cost_usd",
    }  # fmt: skip


def test_a_line_fed_back_as_a_recording_gives_the_same_line(tmp_path: Path) -> None:
    (line,) = exported(tmp_path / "one", REPLIES, *OVERRIDES["tool_loop"])
    said = [message for message in line["messages"] if message["role"] == "assistant"]
    replies = [
        {
            "text": message["content"],
            "reasoning": message.get("reasoning_content", ""),
            "tool_calls": [
                {"name": asked["function"]["name"], "arguments": json.loads(asked["function"]["arguments"])}
                for asked in message.get("tool_calls", [])
            ],
        }
        for message in said
    ]
    (again,) = exported(tmp_path / "two", replies, *OVERRIDES["tool_loop"])
    for name in ("messages", "tools", "reward", "turn_rewards", "verdict", "graded_sha256"):
        assert again[name] == line[name]


def test_the_line_of_a_tool_loop_to_the_letter(tmp_path: Path) -> None:
    (line,) = exported(tmp_path, REPLIES, *OVERRIDES["tool_loop"])
    assert line["turn_rewards"] == [0.0, None, pytest.approx(4.3)]
    first, aloud, last = (message for message in line["messages"] if message["role"] == "assistant")
    assert first["reasoning_content"] == "First a try." and "reasoning_content" not in aloud
    assert [asked["function"]["name"] for asked in last["tool_calls"]] == ["evaluate_kernel", "submit_kernel"]
    assert line["messages"][-1]["content"].startswith("submit_kernel PASSED: (5 / 5)")
    assert (line["conversation"], line["shortened_turns"], line["exit_status"]) == ("main", [], "SUBMITTED")


def test_messages_that_were_shortened_on_the_way_are_exported_whole(tmp_path: Path) -> None:
    long = "good\n" + "# a comment\n" * 400
    replies = [call("run_correctness", f"{long}{turn}") for turn in range(5)]
    for turn, reply in enumerate(replies):
        reply["usage"] = {"prompt_tokens": 5000 + 1000 * turn, "completion_tokens": 9}
    narrow = ["budget.turns=6", "model.context_tokens=8500", "model.max_tokens=1000"]
    (line,) = exported(tmp_path, replies, *OVERRIDES["tool_loop"], *narrow)
    assert line["shortened_turns"]
    sources = [
        json.loads(asked["function"]["arguments"])["kernel_code"]
        for message in line["messages"]
        for asked in message.get("tool_calls", [])
    ]
    assert sources == [f"{long}{turn}" for turn in range(5)]


def test_a_cell_without_a_model_has_no_line_and_half_a_surrogate_pair_becomes_readable(tmp_path: Path) -> None:
    replies = [{"text": "half \ud83d", "tool_calls": [], "usage": {"prompt_tokens": 9, "completion_tokens": 9}}] * 3
    lines = exported(tmp_path, replies, "agent=baseline,iterative")
    assert [line["agent"] for line in lines] == ["iterative"]
    assert (lines[0]["verdict"], lines[0]["exit_status"]) == ("NO_SOLUTION", "FORMAT_ERROR")
    assert (lines[0]["reward"], lines[0]["turn_rewards"]) == (0.0, [None, None, None])
    assert lines[0]["messages"][2]["content"] == "half ?"


def test_the_reward_is_a_function_of_verdict_and_speedup() -> None:
    assert reward(find("fast", Stage.TIMING)) == CORRECT_REWARD + 4.0
    assert reward(find("good", Stage.TIMING)) == CORRECT_REWARD + 100.0
    assert reward(find("noisy", Stage.TIMING)) == CORRECT_REWARD
    assert reward(find("good", Stage.CORRECTNESS)) == CORRECT_REWARD
    for nothing in (None, find("good", Stage.BUILD), find("wrong", Stage.TIMING), find("broken", Stage.TIMING)):
        assert reward(nothing) == 0.0
    assert reward(Evaluation(status=Status.TAMPERING, stage=Stage.CORRECTNESS)) == 0.0


def test_the_verb_writes_the_file_and_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = finished_store(tmp_path, REPLIES, *OVERRIDES["single_turn"])
    assert main(["report", "--trajectories", "--out", str(tmp_path / "outputs"), "name=tiny", "problem=24"]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path == store.root / "trajectories.jsonl" and len(path.read_text().splitlines()) == 1
    assert not (store.root / "report.html").exists()

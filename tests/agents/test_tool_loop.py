from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agent_cell import Cell, call, says

from agents.budget import spent_in
from agents.errors import ProviderCause, ProviderError
from agents.protocols import ExitStatus, Message, Reply, Usage
from agents.trajectory import Trajectory
from evaluation.verdict import Evaluation, Stage, Status
from problems.problem import ProblemError

SUBMIT = says(call("submit_kernel", kernel_code="good"))
COMPILE = says(call("compile_kernel", kernel_code="good"))


def kinds(trajectory: Trajectory, kind: str) -> list[dict[str, Any]]:
    return [event for event in trajectory.events if event["kind"] == kind]


def sent(trajectory: Trajectory) -> list[str]:
    """What the harness said, turn by turn, after the opening."""
    messages = [message for event in kinds(trajectory, "request") for message in event["messages"]]
    return [message["content"] for message in messages[2:] if message["role"] == "user"]


def test_a_session_from_specs_to_submission(cell: Cell, trajectory: Trajectory) -> None:
    script = [
        says(call("get_gpu_specs"), call("compile_kernel", kernel_code="broken", id="d")),
        says(call("run_correctness", kernel_code="wrong")),
        says(call("run_correctness", kernel_code="good")),
        SUBMIT,
    ]
    assert cell.loop(script, trajectory, turns=10).run() is ExitStatus.SUBMITTED
    assert cell.judge.asked == [
        ("broken", Stage.BUILD),
        ("wrong", Stage.CORRECTNESS),
        ("good", Stage.CORRECTNESS),
        ("good", Stage.TIMING),
    ]
    results = [event["result"] for event in kinds(trajectory, "tool_result")]
    assert [result["ok"] for result in results] == [True, False, False, True, True]
    assert [result["text"].splitlines()[0].split(":")[0] for result in results[1:]] == [
        "compile_kernel FAILED",
        "run_correctness FAILED",
        "run_correctness PASSED",
        "submit_kernel PASSED",
    ]
    added = kinds(trajectory, "request")[1]["messages"]
    assert [message["role"] for message in added] == ["assistant", "tool", "tool"]
    assert [message.get("tool_call_id") for message in added] == [None, "c", "d"]
    assert trajectory.exit_status is ExitStatus.SUBMITTED


def test_the_run_ends_at_the_first_submission_with_a_verdict_on_values(cell: Cell, trajectory: Trajectory) -> None:
    script = [
        says(call("submit_kernel", kernel_code="broken")),
        says(call("submit_kernel", kernel_code="wrong"), call("submit_kernel", kernel_code="good")),
    ]
    assert cell.loop(script, trajectory, turns=10).run() is ExitStatus.SUBMITTED
    assert [source for source, _ in cell.judge.asked] == ["broken", "wrong"]


def test_calls_after_a_submission_that_did_not_compile_are_run(cell: Cell, trajectory: Trajectory) -> None:
    script = [says(call("submit_kernel", kernel_code="broken"), call("submit_kernel", kernel_code="crash"))]
    assert cell.loop(script, trajectory, turns=10).run() is ExitStatus.SUBMITTED
    assert [source for source, _ in cell.judge.asked] == ["broken", "crash"]


def test_a_reply_without_a_call_is_reminded_and_three_in_a_row_end_the_run(cell: Cell, trajectory: Trajectory) -> None:
    script = [says(), says(), COMPILE, says(text="hm"), says(finish_reason="length"), says(), SUBMIT]
    assert cell.loop(script, trajectory, turns=20).run() is ExitStatus.FORMAT_ERROR
    assert cell.model.queries == 6
    reminders = sent(trajectory)
    assert len(reminders) == 4 and all("submit_kernel" in text for text in reminders)
    assert "had no tool call" in reminders[2] and "was cut at its token limit" in reminders[3]


def test_turns_end_the_run(cell: Cell, trajectory: Trajectory) -> None:
    assert cell.loop([COMPILE] * 9, trajectory, turns=4, warn_turns_remaining=2).run() is ExitStatus.TURNS_SPENT
    assert cell.model.queries == 4
    notices = sent(trajectory)
    assert notices[0].startswith("Status: 2 turn(s) and unlimited tool call(s) remain.")
    assert notices[1].startswith("FINAL TURN POLICY:") and "submit_kernel exactly once" in notices[1]
    assert len(notices) == 2


def test_a_single_turn_requires_a_call_and_says_that_it_is_the_last(cell: Cell, trajectory: Trajectory) -> None:
    choices = []

    def script(turn: int, messages: list[Message]) -> Reply:
        return COMPILE

    loop = cell.loop(script, trajectory, turns=1)
    query = cell.model.query
    cell.model.query = lambda messages, tools, choice, _: choices.append(choice) or query(messages, tools)
    assert loop.run() is ExitStatus.TURNS_SPENT
    assert choices == ["required"]
    assert sent(trajectory)[0].startswith("FINAL TURN POLICY:")


def test_submission_stays_possible_when_the_tool_calls_are_spent(cell: Cell, trajectory: Trajectory) -> None:
    many = says(*[call("compile_kernel", kernel_code=f"good {i}", id=str(i)) for i in range(3)])
    assert cell.loop([many, SUBMIT], trajectory, turns=10, tool_calls=2).run() is ExitStatus.SUBMITTED
    assert len(cell.judge.asked) == 3
    refused = kinds(trajectory, "tool_result")[2]["result"]
    assert refused["refused"] and refused["text"].startswith("Tool call limit reached. No further tool calls")
    assert sent(trajectory) == [
        "Status: 9 turn(s) and 0 tool call(s) remain. Only submit_kernel will still be run: call it now."
    ]
    assert spent_in(trajectory.events).tool_calls == 3


def test_a_turn_of_nothing_but_refused_calls_ends_the_run(cell: Cell, trajectory: Trajectory) -> None:
    assert cell.loop([COMPILE] * 9, trajectory, turns=10, tool_calls=2).run() is ExitStatus.TOOL_CALLS_SPENT
    assert (cell.model.queries, len(cell.judge.asked)) == (3, 2)


@pytest.mark.parametrize(
    ("limit", "exit_status", "queries"),
    [
        ({"tokens": 250}, ExitStatus.TOKENS_SPENT, 3),
        ({"cost_usd": 0.5}, ExitStatus.COST_SPENT, 2),
        ({"wall_s": 5.0}, ExitStatus.WALL_SPENT, 3),
        ({"tokens": 0}, ExitStatus.TOKENS_SPENT, 0),
    ],
)
def test_each_budget_is_checked_before_the_next_turn(
    cell: Cell, trajectory: Trajectory, limit: dict[str, float], exit_status: ExitStatus, queries: int
) -> None:
    assert cell.loop([COMPILE] * 9, trajectory, turns=10, **limit).run() is exit_status
    assert cell.model.queries == queries


def test_when_the_seconds_are_spent_a_submission_is_still_judged(cell: Cell, trajectory: Trajectory) -> None:
    both = says(call("compile_kernel", kernel_code="good"), call("submit_kernel", kernel_code="good"))
    assert cell.loop([both], trajectory, turns=10, wall_s=1.0).run() is ExitStatus.SUBMITTED
    assert cell.judge.asked == [("good", Stage.TIMING)]
    assert kinds(trajectory, "tool_result")[0]["result"]["text"].startswith("Time limit reached.")


def test_a_reply_that_does_not_state_its_tokens_breaks_a_token_budget(cell: Cell, trajectory: Trajectory) -> None:
    with pytest.raises(ProviderError) as error:
        cell.loop([says(COMPILE.tool_calls[0], usage=Usage())] * 2, trajectory, turns=10, tokens=100).run()
    assert error.value.cause is ProviderCause.BAD_REPLY


def test_the_history_never_holds_arguments_that_do_not_parse(cell: Cell, trajectory: Trajectory) -> None:
    bad = call("compile_kernel")
    object.__setattr__(bad, "arguments", '{"kernel_code": "x')
    assert cell.loop([says(bad), SUBMIT], trajectory, turns=9).run() is ExitStatus.SUBMITTED
    assistant, tool = kinds(trajectory, "request")[1]["messages"]
    assert assistant["tool_calls"][0]["function"]["arguments"] == "{}"
    assert tool["content"].startswith("Tool call arguments could not be parsed as JSON:")
    assert kinds(trajectory, "tool_call")[0]["call"]["arguments"] == '{"kernel_code": "x'


def test_what_the_provider_signed_goes_back_and_reasoning_does_not(cell: Cell, trajectory: Trajectory) -> None:
    blocks = {"thinking_blocks": [{"thinking": "secret", "signature": "s"}]}
    cell.loop([says(*COMPILE.tool_calls, reasoning="aloud", echo=blocks), SUBMIT], trajectory, turns=9).run()
    assistant = kinds(trajectory, "request")[1]["messages"][0]
    assert assistant["thinking_blocks"] == blocks["thinking_blocks"]
    assert "aloud" not in json.dumps(assistant)


def test_an_invalid_problem_is_not_the_models_to_mend(cell: Cell, trajectory: Trajectory) -> None:
    cell.judge.find = lambda *_: Evaluation(
        status=Status.INVALID_PROBLEM, stage=Stage.BUILD, message="undefined name D"
    )
    with pytest.raises(ProblemError, match="level1/23_virtual_all_reduce_mean cannot be judged: undefined name D"):
        cell.loop([COMPILE], trajectory, turns=9).run()
    assert trajectory.exit_status is None


SESSION = [
    says(call("compile_kernel", kernel_code="broken"), call("compile_kernel", kernel_code="good", id="d")),
    says(),
    says(call("run_correctness", kernel_code="wrong"), call("run_correctness", kernel_code="good", id="d")),
    says(call("submit_kernel", kernel_code="broken")),
    SUBMIT,
]


class Killed(BaseException):
    """Stands for SIGKILL: nothing handles it."""


def test_killed_after_any_event_a_cell_ends_alike_and_asks_nothing_twice(
    cell: Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Trajectory(tmp_path / "whole" / "trajectory.jsonl") as whole:
        cell.loop(SESSION, whole, turns=7, tool_calls=8).run()
    planned = [(event["kind"], event.get("turn")) for event in whole.events]
    judged = list(cell.judge.asked)
    append = Trajectory.append
    for last in range(len(planned)):
        cell.path = tmp_path / str(last) / "trajectory.jsonl"
        cell.judge.asked.clear()
        asked = 0

        def append_or_die(self: Trajectory, kind: str, _last: int = last, **fields: Any) -> None:
            append(self, kind, **fields)
            if len(self.events) > _last:
                raise Killed

        monkeypatch.setattr(Trajectory, "append", append_or_die)
        with Trajectory(cell.path) as first, pytest.raises(Killed):
            cell.loop(SESSION, first, turns=7, tool_calls=8).run()
        asked += cell.model.queries
        monkeypatch.setattr(Trajectory, "append", append)
        with Trajectory(cell.path) as second:
            assert cell.loop(SESSION, second, turns=7, tool_calls=8).run() is ExitStatus.SUBMITTED
        assert [(event["kind"], event.get("turn")) for event in second.events] == planned
        assert asked + cell.model.queries == len(SESSION)
        assert cell.judge.asked == judged
        assert spent_in(second.events).tool_calls == spent_in(whole.events).tool_calls


def test_budgets_count_what_was_spent_before_the_process_died(cell: Cell) -> None:
    with Trajectory(cell.path) as first, pytest.raises(IndexError):
        cell.loop([COMPILE] * 2, first, turns=4, cost_usd=1.0).run()
    with Trajectory(cell.path) as second:
        assert cell.loop([COMPILE] * 9, second, turns=9, cost_usd=1.0).run() is ExitStatus.COST_SPENT
        assert cell.model.queries == 2
        spent = spent_in(second.events)
    assert (spent.turns, spent.tokens, spent.usage.cost_usd, spent.llm_s) == (4, 440, 1.0, 8.0)


def test_a_finished_trajectory_is_not_written_to_again(cell: Cell) -> None:
    with Trajectory(cell.path) as first:
        cell.loop([COMPILE, SUBMIT], first, turns=4).run()
    size = cell.path.stat().st_size
    with Trajectory(cell.path) as second:
        assert cell.loop([], second, turns=4).run() is ExitStatus.SUBMITTED
    assert (cell.model.queries, cell.path.stat().st_size) == (0, size)

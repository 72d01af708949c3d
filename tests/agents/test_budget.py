from __future__ import annotations

from typing import Any

import pytest
from agent_cell import Cell, call, says, verdict

from agents.budget import spent_in
from agents.protocols import ExitStatus
from agents.trajectory import Trajectory
from evaluation.verdict import Build, Evaluation, Stage, Status

CHECK = says(call("run_correctness", kernel_code="good"))
SUBMIT = says(call("submit_kernel", kernel_code="good"))


def judged(**fields: Any) -> Any:
    """A judge that says of every kernel what the double says, with these fields too."""

    def find(source: str, stage: Stage) -> Evaluation:
        plain = verdict(source, stage)
        return Evaluation(**{**{name: getattr(plain, name) for name in plain.__slots__}, **fields})

    return find


def built(source: str, stage: Stage) -> Evaluation:
    """Each source asks for one object; those that say `broken` fail in the compiler."""
    if source.startswith("broken"):
        return Evaluation(
            status=Status.COMPILE_ERROR, stage=Stage.BUILD, wall_s={"build": 1.0}, solution_sha256=f"sha {source}"
        )
    return Evaluation(
        status=Status.PASSED,
        stage=Stage.BUILD,
        builds=[Build(name="k", tier="lite", cached=True, wall_s=0.0, key=f"key of {source}")],
        wall_s={"build": 1.0},
    )


def refusals(trajectory: Trajectory) -> list[str]:
    results = [event["result"] for event in trajectory.events if event["kind"] == "tool_result"]
    return [result["text"].split(" limit")[0] for result in results if result["refused"]]


def test_seconds_on_the_device_end_the_tools_and_then_the_cell(cell: Cell, trajectory: Trajectory) -> None:
    cell.judge.find = judged(wall_s={"queue": 50.0, "build": 9.0, "correctness": 2.0, "timing": 1.0})
    assert cell.loop([CHECK] * 9, trajectory, turns=9, gpu_s=5.0).run() is ExitStatus.GPU_SPENT
    assert len(cell.judge.asked) == 2
    assert refusals(trajectory) == ["GPU time"]
    assert spent_in(trajectory.events).gpu_s == 6.0


def test_builds_are_the_objects_that_a_cell_asked_for_each_once_and_failed_ones_too(
    cell: Cell, trajectory: Trajectory
) -> None:
    cell.judge.find = built
    kernels = ["a", "a", "broken b", "a", "c", "d"]
    script = [says(call("compile_kernel", kernel_code=kernel)) for kernel in kernels]
    assert cell.loop(script, trajectory, turns=9, builds=3).run() is ExitStatus.BUILDS_SPENT
    assert [source for source, _ in cell.judge.asked] == ["a", "a", "broken b", "a", "c"]
    assert refusals(trajectory) == ["Build"]


@pytest.mark.parametrize("limit", [{"gpu_s": 1.0}, {"builds": 1}, {"tool_calls": 1}])
def test_a_kernel_can_be_handed_in_whatever_is_spent(cell: Cell, trajectory: Trajectory, limit: dict[str, Any]) -> None:
    build = Build(name="k", tier="lite", cached=False, wall_s=1.0, key="k")
    cell.judge.find = judged(wall_s={"timing": 1.0}, builds=[build])
    both = says(call("run_correctness", kernel_code="good"), call("run_correctness", kernel_code="good"))
    assert cell.loop([both, SUBMIT], trajectory, turns=9, **limit).run() is ExitStatus.SUBMITTED
    assert len(refusals(trajectory)) == 1
    told = [message["content"] for message in trajectory.events[-5]["messages"] if message["role"] == "user"]
    assert any("Only submit_kernel will still be run" in text for text in told)


@pytest.mark.parametrize("limit", [{"gpu_s": 3.0}, {"builds": 3}, {"tool_calls": 3}, {"turns": 3}, {"cost_usd": 0.7}])
def test_a_killed_cell_goes_on_with_what_it_had_left(cell: Cell, limit: dict[str, Any]) -> None:
    """Whatever the budget, stopping after each turn changes neither what is asked nor how it ends."""

    def find(source: str, stage: Stage) -> Evaluation:
        build = Build(name="k", tier="lite", cached=False, wall_s=1.0, key=f"{source} {len(cell.judge.asked)}")
        return judged(wall_s={"correctness": 1.0}, builds=[build])(source, stage)

    limit = {"turns": 9, **limit}
    cell.judge.find = find
    with Trajectory(cell.path) as trajectory:
        whole = cell.loop([CHECK] * 9, trajectory, **limit).run()
        asked, spent = len(cell.judge.asked), spent_in(trajectory.events)

    class Killed(Exception):
        pass

    cell.path = cell.path.with_name("again.jsonl")
    cell.judge.asked.clear()
    for turns in range(1, 10):

        def script(turn: int, _: Any, turns: int = turns) -> Any:
            if turn >= turns:
                raise Killed
            return CHECK

        with Trajectory(cell.path) as trajectory:
            try:
                again = cell.loop(script, trajectory, **limit).run()
                break
            except Killed:
                continue
    assert again is whole
    assert len(cell.judge.asked) == asked
    assert spent_in(trajectory.events).built == spent.built
    assert spent_in(trajectory.events).gpu_s == spent.gpu_s == 3.0


def test_a_reply_cut_by_the_provider_is_no_budget_of_ours(cell: Cell, trajectory: Trajectory) -> None:
    cut = says(finish_reason="length")
    assert cell.loop([cut, SUBMIT], trajectory, turns=9).run() is ExitStatus.SUBMITTED
    assert cut.truncated

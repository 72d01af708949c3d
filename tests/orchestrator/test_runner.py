"""Which kernel stands for a cell, how it is graded, and that a kill between two verdicts costs nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.protocols import ToolCall, ToolResult
from agents.trajectory import Trajectory
from evaluation.client import EvaluatorError
from evaluation.settings import EvaluationSettings
from evaluation.verdict import Evaluation, Solution, Stage, Status
from orchestrator.store.journal import turns, until_attempt, working_s
from orchestrator.sweep.grading import SELECTION_LIMIT, grade, judged_with_profile
from problems.library import Library
from problems.problem import Problem

Timed = Callable[[float, float], Evaluation]


@pytest.fixture
def trajectory(tmp_path: Path) -> Iterator[Trajectory]:
    with Trajectory(tmp_path / "trajectory.jsonl") as opened:
        opened.append("start", attempt=1)
        yield opened


class Judge:
    """Finds what it was told to find for each source, and counts."""

    def __init__(self, found: dict[str, Evaluation]) -> None:
        self.found = found
        self.asked: list[str] = []
        self.purposes: list[str] = []
        self.dies_after: int | None = None

    def __call__(self, source: str, purpose: str) -> Evaluation:
        if len(self.asked) == self.dies_after:
            raise KeyboardInterrupt
        self.asked.append(source)
        self.purposes.append(purpose)
        return self.found[source]


def try_kernel(trajectory: Trajectory, turn: int, source: str, evaluation: Evaluation, tool: str = "x") -> None:
    sha256 = trajectory.keep(source)
    result = ToolResult(text="", ok=True, evaluation=evaluation, wall_s=1.0, solution_sha256=sha256)
    trajectory.tool_result(turn, 0, ToolCall(id="c", name=tool, arguments="{}"), lambda _: result)


def untimed(evaluation: Evaluation) -> Evaluation:
    return dataclasses.replace(evaluation, timing=None, stage=Stage.CORRECTNESS)


COMPILED = Evaluation(status=Status.PASSED, stage=Stage.BUILD)
WRONG = Evaluation(status=Status.INCORRECT_VALUES, stage=Stage.CORRECTNESS)


def test_the_fastest_verified_kernel_wins_over_the_submitted_one(trajectory: Trajectory, timed: Timed) -> None:
    try_kernel(trajectory, 0, "fast", timed(1.0, 2.0), "submit_kernel")
    try_kernel(trajectory, 1, "slow", timed(4.0, 2.0), "submit_kernel")
    try_kernel(trajectory, 2, "wrong", WRONG, "submit_kernel")
    judge = Judge({"fast": timed(1.1, 2.0)})
    given = grade(trajectory, judge)
    assert judge.asked == ["fast"] and given.evaluation == judge.found["fast"] and given.verdict == "PASSED"
    assert given.solution_sha256 is not None and trajectory.source(given.solution_sha256[:12]) == "fast"
    assert [event["purpose"] for event in trajectory.events if event["kind"] == "grade"] == ["final"]


def test_what_is_certain_of_the_speed_up_decides(trajectory: Trajectory, timed: Timed) -> None:
    shaky = timed(1.0, 3.0)
    assert shaky.timing is not None
    shaky = dataclasses.replace(shaky, timing=dataclasses.replace(shaky.timing, speedup_low=0.5))
    try_kernel(trajectory, 0, "shaky", shaky)
    try_kernel(trajectory, 1, "steady", timed(1.0, 1.5))
    judge = Judge({"steady": timed(1.0, 1.5)})
    grade(trajectory, judge)
    assert judge.asked == ["steady"]


def test_untimed_kernels_are_timed_once_the_most_recent_only(trajectory: Trajectory, timed: Timed) -> None:
    names = [f"kernel {number}" for number in range(SELECTION_LIMIT + 2)]
    for turn, name in enumerate(names):
        try_kernel(trajectory, turn, name, untimed(timed(1.0, 1.0)))
    try_kernel(trajectory, len(names), names[0], untimed(timed(1.0, 1.0)))  # seen again, so recent
    judge = Judge({name: timed(1.0, 1.0 + number) for number, name in enumerate(reversed(names))})
    grade(trajectory, judge)
    assert judge.asked == [names[3], names[4], names[0], names[0]]
    assert judge.purposes == ["selection", "selection", "selection", "final"]


def test_one_verified_kernel_needs_no_selection(trajectory: Trajectory, timed: Timed) -> None:
    try_kernel(trajectory, 0, "only compiled", COMPILED)
    try_kernel(trajectory, 1, "right", untimed(timed(1.0, 1.0)))
    try_kernel(trajectory, 2, "only compiled too", COMPILED)
    judge = Judge({"right": timed(1.0, 1.0)})
    grade(trajectory, judge)
    assert judge.asked == ["right"]


def test_a_kernel_that_fails_its_grade_has_that_verdict(trajectory: Trajectory, timed: Timed) -> None:
    try_kernel(trajectory, 0, "flaky", timed(1.0, 2.0), "submit_kernel")
    assert grade(trajectory, Judge({"flaky": WRONG})).verdict == "INCORRECT_VALUES"


@pytest.mark.parametrize(("tool", "graded"), [("submit_kernel", "first"), ("run_correctness", "last")])
def test_without_a_verified_kernel_the_last_submission_or_kernel_gives_the_status(
    trajectory: Trajectory, tool: str, graded: str
) -> None:
    try_kernel(trajectory, 0, "first", WRONG, tool)
    try_kernel(trajectory, 1, "last", COMPILED, "compile_kernel")
    judge = Judge({"first": WRONG, "last": WRONG})
    assert grade(trajectory, judge).verdict == "INCORRECT_VALUES"
    assert judge.asked == [graded]


def test_without_a_kernel_there_is_no_solution(trajectory: Trajectory) -> None:
    given = grade(trajectory, Judge({}))
    assert (given.verdict, given.evaluation, given.solution_sha256) == ("NO_SOLUTION", None, None)


@pytest.mark.parametrize("verdicts", [0, 1, 2])
def test_a_kill_between_verdicts_is_continued(trajectory: Trajectory, timed: Timed, verdicts: int) -> None:
    for turn, name in enumerate(("one", "two")):
        try_kernel(trajectory, turn, name, untimed(timed(1.0, 1.0)))
    judge = Judge({"one": timed(1.0, 2.0), "two": timed(1.0, 1.5)})
    judge.dies_after = verdicts
    with pytest.raises(KeyboardInterrupt):
        grade(trajectory, judge)
    judge.dies_after = None
    trajectory.close()
    with Trajectory(trajectory.path) as reopened:
        given = grade(reopened, judge)
        assert grade(reopened, judge) == given
    assert judge.asked == ["one", "two", "one"] and given.evaluation == judge.found["one"]


class Evaluator:
    """Gives a verdict up to the timing; a profile takes it down."""

    settings = EvaluationSettings.on("cuda")

    def __init__(self, found: Evaluation) -> None:
        self.found = found
        self.stages: list[Stage] = []

    def evaluate(self, problem: Problem, solution: Solution, stage: Stage) -> Evaluation:
        self.stages.append(stage)
        if stage is Stage.PROFILE:
            raise EvaluatorError("the device is lost")
        return self.found


def test_a_profile_that_takes_the_evaluator_down_costs_itself_and_no_verdict(timed: Timed) -> None:
    problem, solution = Library().load("level1/24_row_softmax"), Solution(source="")
    right, wrong = Evaluator(timed(1.0, 2.0)), Evaluator(WRONG)
    found = judged_with_profile(right, problem, solution)
    assert right.stages == [Stage.PROFILE, Stage.TIMING]
    assert found.profile is not None and dataclasses.replace(found, profile=None) == right.found
    assert set(found.profile.absent.values()) == {"the evaluator failed at it: the device is lost"}
    assert judged_with_profile(wrong, problem, solution) == WRONG and wrong.stages == right.stages


def test_time_between_two_processes_is_no_work() -> None:
    times = [("start", 100.0), ("reply", 103.0), ("start", 500.0), ("reply", 504.0), ("exit", 505.0)]
    events = [{"kind": kind, "t": at, "attempt": 1 + (at >= 500), "reply": {}, "turn": 0} for kind, at in times]
    assert working_s(events) == 3.0 + 5.0
    assert working_s([]) == 0.0
    assert until_attempt(events, 1) == events[:2] and until_attempt(events, 2) == events


def test_a_turn_is_closed_by_what_follows_it(trajectory: Trajectory) -> None:
    try_kernel(trajectory, 0, "kernel", WRONG)
    assert [turn.closed for turn in turns(trajectory.events)] == [False]
    trajectory.append("start", attempt=2)
    assert [turn.closed for turn in turns(trajectory.events)] == [False]
    try_kernel(trajectory, 1, "kernel", WRONG)
    assert [turn.closed for turn in turns(trajectory.events)] == [True, False]
    assert [turn.tools_s for turn in turns(trajectory.events)] == [1.0, 1.0]

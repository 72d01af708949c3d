"""What is built once is found by every later stage, and nobody's build waits for anybody's clock."""

from __future__ import annotations

import threading

import pytest

from evaluation.judge import Judge
from evaluation.timing import lane
from evaluation.verdict import Evaluation, Solution, Stage, Status
from problems.library import Library


@pytest.fixture(scope="module")
def problem():
    return Library("own").load("level1/23_virtual_all_reduce_mean")


def test_compiling_warms_what_correctness_and_the_submission_find(judge, problem, candidate) -> None:
    native = candidate("cpp_mean_over_ranks")
    cached = []
    for stage in (Stage.BUILD, Stage.CORRECTNESS, Stage.TIMING):
        evaluation = judge.evaluate(problem, native, stage)
        assert evaluation.status.correct, evaluation.message
        assert [build.tier for build in evaluation.builds] == ["lite"]
        cached.append(evaluation.builds[0].cached)
    assert cached == [False, True, True]


def test_a_build_does_not_wait_for_the_lane_of_another_ones_times(judge: Judge, problem, candidate) -> None:
    source = candidate("cpp_mean_over_ranks").source.replace("float sum = 0.0f;", "float sum = 0.0f; /**/ ;")
    done: list[Evaluation] = []
    with lane.held(judge.settings.cpu_threads):
        building = threading.Thread(
            target=lambda: done.append(judge.evaluate(problem, Solution(source=source), Stage.CORRECTNESS))
        )
        building.start()
        building.join(60)
    assert [evaluation.status for evaluation in done] == [Status.PASSED]
    assert not done[0].builds[0].cached


def test_a_wrong_program_ends_before_its_times_are_taken(judge, problem, candidate) -> None:
    source = candidate("cpp_mean_over_ranks").source.replace("out[i] = sum / R;", "out[i] = sum / R")
    evaluation = judge.evaluate(problem, Solution(source=source), Stage.TIMING)
    assert (evaluation.status, evaluation.stage, evaluation.timing) == (Status.COMPILE_ERROR, Stage.BUILD, None)
    assert "expected ';' before '}' token" in evaluation.message

"""What the draws of one evaluation are, before any of them is made."""

import dataclasses
from collections import Counter

import pytest

from evaluation.correctness.trials import planned
from evaluation.settings import EvaluationSettings
from problems.library import Library


@pytest.fixture
def problem():
    return Library().load("26")


@pytest.mark.parametrize("draws", [1, 5, 8, 21])
def test_every_evaluation_draws_every_value_set_in_both_directions(problem, draws):
    for _ in range(20):
        cases = Counter(plan.case for plan in planned(problem, EvaluationSettings(draws=draws)))
        assert set(cases) == set(problem.cases)
        assert {"scaled_up", "scaled_down", "shifted_up", "shifted_down", "integer"} < set(cases)
        assert cases.total() == max(draws, len(problem.cases))
        assert max(cases.values()) - min(cases.values()) <= 1


def test_nobody_can_tell_which_draw_is_which(problem):
    orders = [[plan.case for plan in planned(problem, EvaluationSettings())] for _ in range(200)]
    for place in range(len(problem.cases)):
        assert {order[place] for order in orders} == set(problem.cases)


def test_one_draw_is_like_the_timed_calls(problem):
    for settings in (EvaluationSettings(), EvaluationSettings(shapes="jitter", draws=30)):
        plans = planned(problem, settings)
        alike = [plan for plan in plans if plan.as_timed]
        assert [(plan.case, plan.shapes, plan.in_first_set) for plan in alike] == [("nominal", "fixed", True)]
        assert all(plan.shapes == settings.shapes for plan in plans if not plan.as_timed)


def test_a_file_without_value_sets_keeps_to_its_own_draws(problem):
    plain = dataclasses.replace(problem, value_sets=("nominal",))
    assert [plan.case for plan in planned(plain, EvaluationSettings(draws=4))] == ["nominal"] * 4

"""The last stage of an evaluation where there is no device to profile on."""

from dataclasses import replace

import pytest

from evaluation.device.presence import absence
from evaluation.profile.judged import profiled
from evaluation.serialize import from_plain, to_plain
from evaluation.verdict import Evaluation, Stage, Status


def test_a_right_candidate_on_a_cpu_has_a_profile_that_says_what_it_lacks(judge, affine, candidate):
    evaluation = judge.evaluate(affine, candidate("correct"), Stage.PROFILE)
    assert evaluation.stage is Stage.PROFILE and evaluation.timing is not None
    assert evaluation.profile is not None and not evaluation.profile.metrics
    assert evaluation.profile == judge.profile(affine, candidate("correct"))
    assert all("CPU" in reason for reason in evaluation.profile.absent.values())
    assert evaluation.wall_s["profile"] >= 0
    assert from_plain(Evaluation, to_plain(evaluation)) == evaluation


@pytest.mark.skipif(absence("cuda") is None, reason="this machine has a CUDA device")
def test_a_profile_that_fails_leaves_the_verdict_as_it_was(judge, affine, candidate):
    right = judge.evaluate(affine, candidate("correct"), Stage.TIMING)
    tools = replace(judge._tools, settings=replace(judge.settings, device="cuda"))
    found = profiled(tools, affine, candidate("correct"), right)
    assert found.profile is not None and not found.profile.metrics
    assert all(reason.startswith("the profile failed: ") for reason in found.profile.absent.values())
    assert (found.status, found.timing, found.correctness) == (right.status, right.timing, right.correctness)


def test_a_wrong_candidate_is_not_profiled(judge, affine, candidate):
    evaluation = judge.evaluate(affine, candidate("ignores_affine"), Stage.PROFILE)
    assert evaluation.status is Status.INCORRECT_VALUES
    assert evaluation.stage is Stage.CORRECTNESS and evaluation.profile is None

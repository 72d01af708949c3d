"""The last stage of an evaluation where there is no device to profile on."""

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


def test_a_wrong_candidate_is_not_profiled(judge, affine, candidate):
    evaluation = judge.evaluate(affine, candidate("ignores_affine"), Stage.PROFILE)
    assert evaluation.status is Status.INCORRECT_VALUES
    assert evaluation.stage is Stage.CORRECTNESS and evaluation.profile is None

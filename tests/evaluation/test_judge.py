"""The judge as a whole: stages, weights, problems at fault, the record."""

import dataclasses
import math
import statistics

import pytest

from evaluation.serialize import from_plain, to_plain
from evaluation.settings import TimingSettings
from evaluation.verdict import Evaluation, Solution, Stage, Status
from problems.library import Library


def test_each_stage_goes_as_far_as_it_says(judge, affine, candidate):
    built = judge.evaluate(affine, candidate("correct"), Stage.BUILD)
    assert (built.status, built.stage, built.correctness, built.timing) == (Status.PASSED, Stage.BUILD, None, None)
    checked = judge.evaluate(affine, candidate("correct"), Stage.CORRECTNESS)
    assert checked.correctness.draws_passed == 3
    assert checked.timing is None
    timed = judge.evaluate(affine, candidate("correct"), Stage.TIMING)
    assert timed.status is Status.PASSED, timed.message
    assert timed.timing.candidate.median_us > 0
    assert timed.timing.speedup_low <= timed.timing.speedup <= timed.timing.speedup_high
    assert set(timed.wall_s) >= {"load", "correctness", "timing", "queue"}


def test_an_evaluation_goes_through_json(judge, affine, candidate):
    evaluation = judge.evaluate(affine, candidate("correct"), Stage.CORRECTNESS)
    assert from_plain(Evaluation, to_plain(evaluation)) == evaluation
    assert evaluation.environment.threads == 1
    assert evaluation.problem == affine.name


def test_a_clock_that_cannot_settle_is_said(judge, affine, candidate, monkeypatch):
    timing = TimingSettings(budget_s=0.05, min_blocks=4, target_interval=1e-9, stable_interval=1e-9)
    monkeypatch.setattr(judge.settings, "timing", timing)
    evaluation = judge.evaluate(affine, candidate("correct"), Stage.TIMING)
    assert evaluation.status is Status.UNSTABLE_TIMING
    assert evaluation.status.correct
    assert evaluation.timing is not None


def test_seeds_are_secret_and_never_repeat(judge, affine, candidate):
    draws = [
        draw.seed
        for _ in range(2)
        for draw in judge.evaluate(affine, candidate("correct"), Stage.CORRECTNESS).correctness.draws
    ]
    assert len(set(draws)) == 6


def test_jittered_draws_have_sizes_of_their_own(judge, affine, candidate, monkeypatch):
    monkeypatch.setattr(judge.settings, "shapes", "jitter")
    monkeypatch.setattr(judge.settings, "draws", 12)
    evaluation = judge.evaluate(affine, candidate("correct"), Stage.CORRECTNESS)
    assert evaluation.status is Status.PASSED, evaluation.message
    sizes = [draw.dims["ROWS"] for draw in evaluation.correctness.draws]
    assert 48 in sizes
    assert len(set(sizes)) > 2


def test_early_exit_after_the_first_wrong_draw(judge, affine, candidate):
    """One more is made only to say what KernelBench would, if none was of the first value set."""
    correctness = judge.evaluate(affine, candidate("zeros"), Stage.TIMING).correctness
    sets = [draw.value_set for draw in correctness.draws]
    assert sets == ["nominal"] or (len(sets) == 2 and sets[1] == "nominal")
    assert correctness.draws_total == 3
    assert not correctness.kernelbench_passed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return self.norm(self.linear(x))", "return self.norm(self.linear(x.t()))"),
        ("return [FEATURES]", "return [torch.Size([FEATURES])]"),
        ("return [FEATURES]", "return [FEATURES, 3]"),
        ("import torch\n", "import a_module_that_is_not_there\n"),
    ],
)
def test_a_problem_that_does_not_work_is_the_problems_fault(judge, affine, candidate, old, new):
    assert old in affine.source
    broken = dataclasses.replace(affine, source=affine.source.replace(old, new, 1))
    evaluation = judge.evaluate(broken, candidate("correct"), Stage.CORRECTNESS)
    assert evaluation.status is Status.INVALID_PROBLEM
    assert affine.name in evaluation.message


KERNEL = '''
import torch
from torch.utils.cpp_extension import load_inline

module = load_inline(
    name="affine_rows",
    cpp_sources="""
torch::Tensor twice(torch::Tensor x) {
    auto y = torch::empty_like(x);
    const float* in = x.data_ptr<float>();
    float* out = y.data_ptr<float>();
    for (int64_t i = 0; i < x.numel(); i++) out[i] = STATEMENT;
    return y;
}
""",
    functions=["twice"],
)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = torch.nn.Linear(features, features)
        self.norm = torch.nn.LayerNorm(features)

    def forward(self, x):
        return self.norm(module.twice(self.linear(x)))
'''


def test_a_native_kernel_is_built_by_the_judge_and_runs_in_the_worker(judge, affine):
    source = KERNEL.replace("STATEMENT", "in[i]")
    evaluation = judge.evaluate(affine, Solution(source=source), Stage.CORRECTNESS)
    assert evaluation.status is Status.PASSED, evaluation.message
    assert [build.name for build in evaluation.builds] == ["affine_rows"]
    assert evaluation.wall_s["build"] > evaluation.wall_s["load"]
    again = judge.evaluate(affine, Solution(source=source), Stage.BUILD)
    assert again.builds[0].cached


def test_what_the_builder_says_is_the_message(judge, affine):
    source = KERNEL.replace('functions=["twice"]', 'functions=["twice"], extra_cflags=["-fplugin=own.so"]')
    evaluation = judge.evaluate(affine, Solution(source=source), Stage.CORRECTNESS)
    assert (evaluation.status, evaluation.stage) == (Status.COMPILE_ERROR, Stage.BUILD)
    assert "-fplugin=own.so" in evaluation.message
    assert evaluation.builds == []


@pytest.mark.quiet
def test_equal_arms_come_out_as_one(judge, monkeypatch):
    """On the smallest problem, where any care taken of one arm and not of the other would show."""
    monkeypatch.setattr(judge.settings, "timing", TimingSettings(budget_s=0.4))
    problem = Library("own").load("23")
    same = Solution(source=f"{problem.source}\n\nclass ModelNew(Model):\n    pass\n")
    timings = [judge.evaluate(problem, same, Stage.TIMING).timing for _ in range(6)]
    # Each holds in 19 of 20 cases.
    assert sum(timing.speedup_low <= 1 <= timing.speedup_high for timing in timings) >= 2
    logs = [math.log(timing.speedup) for timing in timings]
    by_chance = 3 * statistics.stdev(logs) / math.sqrt(len(logs))
    assert abs(statistics.mean(logs)) < 0.05 + by_chance, logs


SPINNING = """

import time

class ModelNew(Model):
    def forward(self, x):
        end = time.perf_counter() + 300e-6
        output = super().forward(x)
        while time.perf_counter() < end:
            pass
        return output
"""


@pytest.mark.quiet
def test_a_known_time_is_measured(judge, monkeypatch):
    monkeypatch.setattr(judge.settings, "timing", TimingSettings(budget_s=0.4))
    problem = Library("own").load("23")
    solution = Solution(source=problem.source + SPINNING)
    timings = [judge.evaluate(problem, solution, Stage.TIMING).timing for _ in range(3)]
    assert statistics.median(timing.speedup for timing in timings) < 0.5
    # What disturbs a call only adds to it.
    least = min(timings, key=lambda timing: timing.candidate.median_us)
    assert least.candidate.median_us == pytest.approx(300 + least.harness_us, rel=0.1)

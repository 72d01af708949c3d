"""Random references are judged by the rule that their problem declares: honest generators pass, shortcuts do not."""

import textwrap

import pytest

from evaluation.verdict import Solution, Stage, Status
from problems.library import read_problem

HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F


def shuffled(n, call):
    # A counter-based generator: an integer hash of place and call.
    h = torch.arange(n, dtype=torch.int64) + call * 0x9E3779B97F4A7C15 % 2**62
    for factor in (0x7FEB352D, 0x846CA68B):
        h = ((h ^ (h >> 16)) * factor) & 0xFFFFFFFF
    return ((h ^ (h >> 16)) & 0xFFFFFF).float() / 2**24


class ModelNew(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.call = 0
        if sizes:
            self.scale = nn.Parameter(torch.rand(sizes[0]) + 0.5)
            self.table = torch.rand(96, sizes[0]) >= 0.3
"""

DROPOUT = """
    def forward(self, x):
        self.call += 1
        y = torch.relu(x * self.scale)
        {}
"""
HONEST_DROPOUT = {
    "torch's own": "return F.dropout(y, 0.3)",
    "a uniform number for each": "return torch.where(torch.rand(y.shape) < 0.3, 0.0, y * (1 / 0.7))",
    "a counter-based hash": "return (shuffled(y.numel(), self.call).view_as(y) >= 0.3) * y / 0.7",
    "rows in another order": "return F.dropout(y.flip(0), 0.3).flip(0)",
}
WRONG_DROPOUT = {
    "nothing dropped": "return y",
    "nothing dropped, scaled": "return y / 0.7",
    "kept elements not scaled": "return (torch.rand(y.shape) >= 0.3) * y",
    "scaled as for a half": "return (torch.rand(y.shape) >= 0.3) * y * 2",
    "a share too small by a fiftieth": "return (torch.rand(y.shape) >= 0.28) * y / 0.7",
    "one mask for all calls": "return self.table * y / 0.7",
    "one mask, rolled at each call": "return self.table.flatten().roll(self.call * 31).view_as(y) * y / 0.7",
    "the same seed at each call": "torch.manual_seed(1); return F.dropout(y, 0.3)",
    "whole rows dropped": "return (torch.rand(len(y), 1) >= 0.3) * y / 0.7",
    "every other column's mask copied": "m = torch.rand(y.shape) >= 0.3; m[:, 1::2] = m[:, ::2]; return m * y / 0.7",
    "the last row never dropped": "m = torch.rand(y.shape) >= 0.3; m[-1] = True; return m * y / 0.7",
    "the last row left out": "z = F.dropout(y, 0.3); z[-1] = 0; return z",
    "zeros": "return torch.zeros_like(y)",
    "half precision": "return F.dropout(y.half(), 0.3).float()",
    "nan where dropped": "return torch.where(torch.rand(y.shape) < 0.3, torch.nan, y / 0.7)",
}

NOISE = """
    def forward(self, mean, deviation):
        self.call += 1
        deviation = torch.cat([torch.zeros(len(mean), 1), deviation[:, 1:].abs()], 1)
        {}
"""
HONEST_NOISE = {
    "torch's own": "return torch.normal(mean, deviation)",
    "Box and Muller's": (
        "u, v = torch.rand(2, *mean.shape); "
        "return mean + deviation * torch.sqrt(-2 * torch.log1p(-u)) * torch.cos(6.283185307 * v)"
    ),
}
WRONG_NOISE = {
    "no noise": "return mean",
    "one sample": "torch.manual_seed(3); return torch.normal(mean, deviation)",
    "uniform noise": "return mean + deviation * (torch.rand(mean.shape) - 0.5) * 12**0.5",
    "too little noise": "return mean + 0.97 * deviation * torch.randn(mean.shape)",
    "a mean that is off": "return mean + deviation * (torch.randn(mean.shape) + 0.06)",
    "one number for a row": "return mean + deviation * torch.randn(len(mean), 1)",
    "the mirrored sample of the call before": (
        "if self.call % 2: self.z = torch.randn(mean.shape)\n        else: self.z = -self.z\n"
        "        return mean + deviation * self.z"
    ),
    "noise where there is none": "return mean + (deviation + 0.01) * torch.randn(mean.shape)",
    "infinite noise": "z = torch.randn(mean.shape); z[3, 3] = torch.inf; return mean + deviation * z",
}


@pytest.fixture(scope="module")
def dropout(data_folder):
    return read_problem(data_folder / "problems" / "2_dropout.py")


@pytest.fixture(scope="module")
def noise(data_folder):
    return read_problem(data_folder / "problems" / "3_noisy_sample.py")


def verdict(judge, problem, frame, body, stage=Stage.CORRECTNESS):
    return judge.evaluate(problem, Solution(source=HEAD + frame.format(body)), stage)


@pytest.fixture
def patient(judge, monkeypatch):
    """A judge of so many draws that the slightest of the wrong distributions, which one draw in three lets pass, is
    found in one of them."""
    monkeypatch.setattr(judge.settings, "draws", 24)
    return judge


@pytest.mark.parametrize("body", HONEST_DROPOUT.values(), ids=HONEST_DROPOUT)
def test_honest_dropout_passes(judge, dropout, body):
    found = verdict(judge, dropout, DROPOUT, body)
    assert found.status is Status.PASSED, found.message
    assert not found.correctness.kernelbench_passed


@pytest.mark.parametrize("body", WRONG_DROPOUT.values(), ids=WRONG_DROPOUT)
def test_a_shortcut_through_dropout_fails(patient, dropout, body):
    assert verdict(patient, dropout, DROPOUT, body).status is Status.INCORRECT_VALUES


@pytest.mark.parametrize("body", HONEST_NOISE.values(), ids=HONEST_NOISE)
def test_honest_samples_pass(judge, noise, body):
    found = verdict(judge, noise, NOISE, body)
    assert found.status is Status.PASSED, found.message


@pytest.mark.parametrize("body", WRONG_NOISE.values(), ids=WRONG_NOISE)
def test_a_wrong_distribution_fails(patient, noise, body):
    assert verdict(patient, noise, NOISE, body).status is Status.INCORRECT_VALUES


def test_a_deterministic_candidate_is_told_so(judge, dropout):
    found = verdict(judge, dropout, DROPOUT, WRONG_DROPOUT["one mask for all calls"])
    assert "answers all calls on the same inputs alike" in found.message


@pytest.mark.parametrize("body", list(HONEST_DROPOUT.values())[:2])
def test_timed_calls_are_checked_by_the_same_rule(judge, dropout, body):
    found = verdict(judge, dropout, DROPOUT, body, Stage.TIMING)
    assert found.status is Status.PASSED, found.message


@pytest.mark.parametrize("shortcut", ["y / 0.7", "self.table * y / 0.7", "F.dropout(y, 0.3) * 1.001"])
def test_a_shortcut_in_timed_calls_alone_is_found(judge, dropout, shortcut, monkeypatch):
    # Correctness asks twelve times on the same inputs, the clock never twice.
    timed = (
        "self.seen = getattr(self, 'seen', []) + [float(x.sum())]; again = self.seen.count(self.seen[-1]) > 1\n"
        f"        return F.dropout(y, 0.3) if again or self.call % 12 == 1 else {shortcut}"
    )
    found = verdict(judge, dropout, DROPOUT, timed, Stage.TIMING)
    assert found.status is Status.INCORRECT_VALUES
    assert "in a timed call" in found.message


def made(tmp_path, source, declared=""):
    path = tmp_path / "1_random.py"
    path.write_text(
        f"import torch\nimport torch.nn as nn\n\n{declared}\n\nclass Model(nn.Module):\n"
        + textwrap.indent(source, "    ")
        + "\n\ndef get_inputs():\n    return [torch.rand(40, 30) + 1]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    return read_problem(path)


RANDOM = "def forward(self, x):\n    return nn.functional.dropout(x, 0.5)"
PLAIN = "def forward(self, x):\n    return x * 2"


@pytest.mark.parametrize(
    "source, declared, words",
    [
        (RANDOM, "", "declare STOCHASTIC = "),
        (PLAIN, 'STOCHASTIC = {"rule": "moments"}', "draws no random numbers"),
        (RANDOM, 'STOCHASTIC = {"rule": "mask", "drop": 0.4}', "declares drop=0.4, but the reference drops 0."),
        (
            "def forward(self, x):\n    return x + torch.rand(x.shape)",
            'STOCHASTIC = {"rule": "mask", "drop": 0.5}',
            "declares mask, but a kept element has not the same value",
        ),
    ],
)
def test_a_problem_must_say_how_it_is_random(judge, tmp_path, source, declared, words):
    solution = "import torch\nimport torch.nn as nn\n\n\nclass ModelNew(nn.Module):\n" + textwrap.indent(source, "    ")
    found = judge.evaluate(made(tmp_path, source, declared), Solution(source=solution), Stage.CORRECTNESS)
    assert found.status is Status.INVALID_PROBLEM
    assert words in found.message


@pytest.mark.parametrize("elements", ["x.sum()", "x[0, :3]", "x"])
@pytest.mark.parametrize("drop", [0.2, 0.02])
def test_what_is_seldom_dropped_and_few_elements_may_be_drawn_alike_by_chance(judge, tmp_path, elements, drop):
    source = f"def forward(self, x):\n    return nn.functional.dropout({elements}, {drop})"
    problem = made(tmp_path, source, f'STOCHASTIC = {{"rule": "mask", "drop": {drop}}}')
    frame = "\n    def forward(self, x):\n        {}\n"
    found = verdict(judge, problem, frame, f"return F.dropout({elements}, {drop})")
    assert found.status is Status.PASSED, found.message


def test_whole_channels_are_dropped_where_the_reference_drops_them(judge, tmp_path):
    source = "def forward(self, x):\n    return nn.functional.dropout1d(x, 0.5)"
    problem = made(tmp_path, source, 'STOCHASTIC = {"rule": "mask", "drop": 0.5}')
    honest = "m = torch.rand(40, 1) >= 0.5; return m * x * 2"
    frame = "\n    def forward(self, x):\n        {}\n"
    assert verdict(judge, problem, frame, honest).status is Status.PASSED
    assert verdict(judge, problem, frame, "return F.dropout(x, 0.5)").status is Status.INCORRECT_VALUES

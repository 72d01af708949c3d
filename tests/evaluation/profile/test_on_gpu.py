"""Profiles of kernels of which it is known what they move, count and launch. Prints each, for the eye (pytest -s)."""

import json
import stat
import sys
import time
from pathlib import Path

import pytest

from evaluation.judge import Judge
from evaluation.serialize import to_plain
from evaluation.settings import EvaluationSettings
from evaluation.verdict import Solution, Stage, Status
from problems.library import read_problem

pytestmark = pytest.mark.gpu
NCU_OUTPUT = Path(__file__).parents[2] / "data" / "ncu"
MODULE = """import torch
import torch.nn as nn


class {name}(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, {arguments}):
        {body}
"""
MAKERS = "\n\ndef get_inputs():\n    return {inputs}\n\n\ndef get_init_inputs():\n    return []\n"


def case(folder, inputs, reference, candidate, arguments="x"):
    path = folder / "1_known.py"
    model = MODULE.format(name="Model", arguments=arguments, body=reference)
    path.write_text(model + MAKERS.format(inputs=inputs))
    return read_problem(path), Solution(
        source=MODULE.format(name="ModelNew", arguments=arguments, body=candidate), language="python"
    )


@pytest.fixture(scope="module")
def judge_of(tmp_path_factory):
    judges = {}
    cache = tmp_path_factory.mktemp("cache")

    def get(precision="fp32"):
        if precision not in judges:
            judges[precision] = Judge(EvaluationSettings.on("cuda", precision=precision), cache)
        return judges[precision]

    yield get
    for judge in judges.values():
        judge.close()


def profile(judge, problem, solution):
    started = time.monotonic()
    found = judge.profile(problem, solution)
    sys.stdout.write(json.dumps(to_plain(found) | {"total_s": round(time.monotonic() - started, 2)}, indent=1))
    for block in ("sol", "roofline", "stalls"):
        assert block not in found.absent, found.absent[block]
    return found


def test_a_copy_moves_its_bytes(judge_of, tmp_path):
    size = 2**27
    found = profile(judge_of(), *case(tmp_path, f"[torch.randn({size})]", "return x.clone()", "return x + 0.0"))
    assert found.metrics["dram_bytes"] == pytest.approx(2 * 4 * size, rel=0.05)
    assert found.metrics["kernel_peak_bytes"] == pytest.approx(4 * size, rel=0.05)
    assert found.metrics["kernel_launches"] == 1
    assert found.words["bottleneck"] == "memory"
    assert found.metrics["dram_percent"] > 75
    assert found.metrics["dram_gb_per_s"] == pytest.approx(
        found.metrics["dram_percent"] / 100 * found.metrics["peak_gb_per_s"], rel=0.1
    )
    assert 4 * size * 2 / 8e12 < found.metrics["device_time_us"] * 1e-6 < 4 * size * 2 / 2e12


@pytest.mark.parametrize(
    ("precision", "figure", "pipe"),
    [("fp32", "fp32_flops", "fma"), ("fp16", "tensor_fp16_flops", "tensor"), ("bf16", "tensor_bf16_flops", "tensor"),
     ("tf32", "tensor_tf32_flops", "tensor")],
)  # fmt: skip
def test_a_matrix_product_counts_its_operations(judge_of, tmp_path, precision, figure, pipe):
    size = 4096
    inputs = f"[torch.randn({size}, {size}), torch.randn({size}, {size})]"
    known = case(tmp_path, inputs, "return x @ y", "return torch.matmul(x, y)", "x, y")
    found = profile(judge_of(precision), *known)
    assert found.metrics[figure] == pytest.approx(2 * size**3, rel=0.05)
    assert found.words["dominant_pipe"] == pipe
    assert found.words["bottleneck"] == "compute"
    assert found.metrics["arithmetic_intensity"] > found.metrics["ridge_point"]


def test_many_small_launches_are_counted_as_they_are(judge_of, tmp_path):
    loop = "for _ in range(20):\n            x = x + 1.0\n        return x"
    found = profile(judge_of(), *case(tmp_path, "[torch.randn(1024)]", loop, "return x + 20.0"))
    assert found.metrics["reference_launches"] == 20
    assert found.metrics["kernel_launches"] == 1
    assert found.metrics["fusion_ratio"] == 20
    assert found.words["bottleneck"] == "launch"


def test_a_mean_is_one_launch_of_both(judge_of, tmp_path):
    """A profiler's operators of the host are no launches."""
    known = case(tmp_path, "[torch.randn(4, 16, 48)]", "return x.mean(dim=0)", "return x.sum(dim=0) * 0.25")
    found = profile(judge_of(), *known)
    assert (found.metrics["reference_launches"], found.metrics["kernel_launches"]) == (1, 2)
    assert found.metrics["reference_peak_bytes"] <= 4096


def test_shares_are_shares_and_occupancy_is_below_its_limit(judge_of, tmp_path):
    found = profile(judge_of(), *case(tmp_path, "[torch.randn(2**24)]", "return x.sum()", "return x.sum(dim=0)"))
    percents = {key: value for key, value in found.metrics.items() if key.endswith("_percent")}
    assert all(0 <= value <= 105 for value in percents.values()), percents
    assert found.metrics["occupancy_percent"] <= 1.05 * found.metrics["theoretical_occupancy_percent"]
    assert sum(value for key, value in percents.items() if key.startswith("stall_")) == pytest.approx(100)


def test_energy_is_that_of_a_busy_board(judge_of, tmp_path):
    found = profile(judge_of(), *case(tmp_path, "[torch.randn(2**27)]", "return x + 1", "return x + 1.0"))
    if "kernel_energy_mj" not in found.metrics:
        pytest.skip(found.absent["kernel_energy_mj"])
    watts = found.metrics["kernel_energy_mj"] / 1e3 / (found.metrics["device_time_us"] * 1e-6)
    assert 50 < watts < 1500
    assert found.metrics["kernel_energy_mj"] == pytest.approx(found.metrics["reference_energy_mj"], rel=0.2)


def test_a_profile_of_one_kernel_is_soon_there(judge_of, tmp_path):
    judge, known = judge_of(), case(tmp_path, "[torch.randn(2**20)]", "return x + 1", "return x + 1.0")
    judge.profile(*known)
    started = time.monotonic()
    profile(judge, *known)
    assert time.monotonic() - started <= 6.0


def test_refused_counters_leave_launches_and_durations(judge_of, tmp_path, monkeypatch):
    program = tmp_path / "ncu"
    told = 'import sys\nfrom pathlib import Path\nlog = Path(sys.argv[sys.argv.index("--log-file") + 1])\n'
    copy = f"log.write_text(Path({str(NCU_OUTPUT / 'refused.csv')!r}).read_text())\n"
    program.write_text(f"#!{sys.executable}\n{told}{copy}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = judge_of().profile(*case(tmp_path, "[torch.randn(2**24)]", "return x + 1", "return x + 1.0"))
    assert "ERR_NVGPUCTRPERM" in found.absent["sol"] and "ERR_NVGPUCTRPERM" in found.absent["stalls"]
    assert found.metrics["kernel_launches"] == 1 and found.metrics["device_time_us"] > 0
    assert "CUPTI" in found.words["counters"]
    assert len(found.kernels) == 1 and found.kernels[0].dram_bytes is None


def test_the_stage_carries_the_profile(judge_of, tmp_path):
    judge, known = judge_of(), case(tmp_path, "[torch.randn(2**20)]", "return x + 1", "return x + 1.0")
    evaluation = judge.evaluate(*known, Stage.PROFILE)
    assert evaluation.status in (Status.PASSED, Status.UNSTABLE_TIMING)
    assert evaluation.stage is Stage.PROFILE and evaluation.profile is not None
    assert evaluation.profile.metrics["kernel_launches"] == 1

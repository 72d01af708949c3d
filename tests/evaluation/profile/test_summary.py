"""Figures from counters: each against the sum done by hand."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from evaluation.profile import metrics as names
from evaluation.profile import ncu
from evaluation.profile.session import absent_on_cpu
from evaluation.profile.summary import bottleneck, summarise

NCU_OUTPUT = Path(__file__).parents[2] / "data" / "ncu"


@dataclass
class Card:
    dram_bandwidth_bytes_s: float = 4.8e12
    peak_flops: dict = field(default_factory=lambda: {"fp32": 66.9e12, "fp16": 989e12})


@pytest.fixture
def copy():
    return summarise(ncu.parse((NCU_OUTPUT / "copy.csv").read_text()), Card())


@pytest.fixture
def two():
    """A reduction of 2 us and a matrix product of 6 us."""
    return summarise(ncu.parse((NCU_OUTPUT / "two.csv").read_text()), Card())


def test_a_copy_is_bound_by_memory(copy):
    moved = 67_112_960 + 52_428_800
    assert copy.metrics["dram_bytes"] == moved
    assert copy.metrics["dram_gb_per_s"] == pytest.approx(moved / 31.456e-6 / 1e9)
    assert copy.words["bottleneck"] == "memory"
    assert copy.metrics["sol_score"] == pytest.approx(0.8125)
    assert copy.metrics["load_sectors_per_request"] == 16
    assert copy.metrics["arithmetic_intensity"] == 0
    assert copy.words["dominant_pipe"] == "lsu" and copy.metrics["dominant_pipe_percent"] == pytest.approx(9.7)
    assert copy.words["occupancy_limiter"] == "warps"


def test_stalls_are_cycles_for_each_instruction_and_shares_that_add_up(copy, two):
    assert copy.metrics["stall_long_scoreboard_cycles"] == 27
    assert copy.metrics["stall_long_scoreboard_percent"] == pytest.approx(90)
    # 100 instructions at 9 cycles, 300 at 1; beside 1 selected, and 3 of barrier.
    assert two.metrics["stall_long_scoreboard_cycles"] == pytest.approx(3)
    assert two.metrics["stall_long_scoreboard_percent"] == pytest.approx(100 * 3 / 7)
    for profile in (copy, two):
        shares = [value for key, value in profile.metrics.items() if key.startswith("stall_") and "percent" in key]
        assert sum(shares) == pytest.approx(100)


def test_rates_are_weighed_by_time_and_amounts_are_added(two):
    assert two.metrics["kernel_launches"] == 2
    assert two.metrics["device_time_us"] == pytest.approx(8)
    assert two.metrics["dram_bytes"] == 16_000
    assert two.metrics["dram_percent"] == pytest.approx((2 * 2 + 6 * 10) / 8)
    assert two.metrics["occupancy_percent"] == pytest.approx((2 * 10 + 6 * 50) / 8)
    assert two.metrics["sol_score"] == pytest.approx((2 * 4 + 6 * 10) / 8 / 100)
    assert [kernel.device_time_us for kernel in two.kernels] == [2, 6]
    assert two.kernels[1].dram_bytes == 12_000


def test_what_is_not_to_be_added_is_of_the_longest_kernel(two):
    assert two.metrics["registers_per_thread"] == 128
    assert two.metrics["shared_bytes_per_block"] == 4096 + 8192 + 1024
    assert two.metrics["theoretical_occupancy_percent"] == 25
    assert two.words["occupancy_limiter"] == "registers, shared memory"


def test_operations_are_counted_by_precision(copy, two):
    assert two.metrics["fp32_flops"] == 1000 + 2 * 500
    assert two.metrics["tensor_fp16_flops"] == 62_000
    assert two.metrics["flops"] == 64_000
    assert two.metrics["arithmetic_intensity"] == 4
    assert two.metrics["fp32_tflops"] == pytest.approx(2000 / 8e-6 / 1e12)
    assert two.metrics["fp16_percent"] == pytest.approx(100 * 62_000 / 8e-6 / 989e12)
    assert two.metrics["ridge_point"] == pytest.approx(989 / 4.8) and two.words["ridge_precision"] == "fp16"
    assert copy.metrics["ridge_point"] == pytest.approx(66.9 / 4.8) and copy.words["ridge_precision"] == "fp32"


def test_what_ncu_did_not_give_is_absent_with_its_name(two):
    assert "l1_hit_percent" not in two.metrics and names.L1_HIT in two.absent["l1_hit_percent"]
    assert names.TENSOR["fp8"][0][0] in two.absent["tensor_fp8_flops"]
    assert "load_sectors_per_request" not in two.metrics and "no load" in two.absent["load_sectors_per_request"]


def test_counters_without_peaks_give_no_shares_of_them():
    profile = summarise(ncu.parse((NCU_OUTPUT / "two.csv").read_text()), None)
    assert profile.metrics["fp32_tflops"] > 0
    for key in ("ridge_point", "fp32_percent", "peak_fp16_tflops"):
        assert key not in profile.metrics and "peaks" in profile.absent[key]


def test_durations_alone_are_a_profile_of_absent_figures():
    profile = summarise([ncu.Kernel("k", {names.TIME: 1000.0})], Card())
    assert profile.metrics["kernel_launches"] == 1
    for key in ("dram_bytes", "dominant_pipe", "arithmetic_intensity", "bottleneck", "sol_score", "stalls"):
        assert key in profile.absent and key not in profile.metrics
    assert profile.kernels[0].dram_bytes is None


def test_no_kernels_are_no_profile():
    with pytest.raises(ValueError, match="each with its duration"):
        summarise([], Card())
    with pytest.raises(ValueError, match="each with its duration"):
        summarise([ncu.Kernel("k", {})], Card())


@pytest.mark.parametrize(
    ("dram", "compute", "kernel_us", "rule"),
    [
        (60.0, 10.0, 1.0, "memory"),
        (75.0, 75.0, 1.0, "memory"),
        (61.0, 90.0, 100.0, "compute"),
        (59.9, 10.0, 4.9, "launch"),
        (59.9, 10.0, 5.0, "latency"),
    ],
)
def test_the_rule_of_the_bottleneck(dram, compute, kernel_us, rule):
    assert bottleneck(dram, compute, kernel_us) == rule


def test_names_are_asked_for_once():
    assert len(names.asked()) == len(set(names.asked()))


def test_on_a_cpu_every_block_says_why():
    profile = absent_on_cpu()
    assert not profile.metrics
    assert {"memory", "launches", "sol", "roofline", "stalls", "energy"} == profile.absent.keys()

"""What profile_kernel tells, on profiles that were saved."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from agent_cell import Cell, call, correctness, says, verdict
from device_evaluations import profiled, saved_profile

from agents.protocols import ToolCall, ToolResult
from agents.tools.profile_hints import HINTS_SHOWN, hints
from agents.tools.profile_kernel import profile_text
from agents.tools.profile_text import _STALLS, Earlier, profile_lines
from agents.trajectory import Trajectory
from evaluation.profile.metrics import STATES
from evaluation.settings import EvaluationSettings
from evaluation.verdict import Evaluation, Profile, ProfiledKernel, Stage, Status

SAVED = sorted(path.stem for path in (Path(__file__).parents[1] / "data" / "profiles").glob("*.json"))
PROFILES = [name for name in SAVED if saved_profile(name).kernels]


def section(lines: list[str], name: str) -> list[str]:
    """The lines below a heading."""
    start = next(at for at, line in enumerate(lines) if line.startswith(f"--- {name}")) + 1
    end = next((at for at in range(start, len(lines)) if lines[at].startswith("---")), len(lines))
    return lines[start:end]


def names(lines: list[str]) -> list[str]:
    return [line.strip("- ") for line in lines if line.startswith("---")]


def test_a_product_of_matrices_is_bound_by_the_sms() -> None:
    lines = profile_lines(saved_profile("matmul_fp16"), None)
    assert lines[:6] == [
        "Bottleneck: compute (the SMs work at 60 % of their peak or more, and are busier than DRAM)",
        "  SM throughput: 90.4 % of peak",
        "  DRAM throughput: 20.0 % of peak (961 of 4800 GB/s)",
        "  mean kernel duration: 182.82 μs (launches: 1)",
        "  SOL score: 0.904 (0 to 1: use of the busier of DRAM and SMs)",
        "  measured by: ncu, caches emptied before each pass, clocks as they are",
    ]
    assert section(lines, "Kernel Breakdown") == [
        "  182.82 μs  100.0 %  1 x  nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_coopA_NNT  (DRAM 20.0 %, SM 90.4 %)"
    ]
    assert section(lines, "Diagnostics") == [
        "  occupancy: 14.7 % (at most 18.8 %, limited by registers, shared memory)",
        "  longest kernel: 168 registers per thread, 384 threads per block, 132 blocks, 214212 bytes of shared memory "
        "per block",
        "  busiest pipe: tensor, 95.1 % of its peak",
        "  cache hits: L1 0.0 %, L2 73.6 %",
        "  DRAM traffic: 175.64 MB per call",
        "  memory allocated by a call: 33.55 MB at its peak",
        "  energy of the board: 145.09 mJ per call",
    ]
    assert [line.split("  ")[1:3] for line in section(lines, "Warp Stall Reasons")] == [
        ["37.6 %", "barrier: at a barrier for the other warps of the block"],
        ["23.7 %", "long_scoreboard: for data of global, local or texture memory"],
        ["18.2 %", "mio_throttle: for room in the queue of shared memory and special functions"],
    ]
    assert section(lines, "Change") == ["  none: this is the first profile of the session"]


def test_operations_are_told_only_where_all_of_them_were_counted() -> None:
    some = saved_profile("matmul_fp16")
    assert "FLOP" not in "\n".join(section(profile_lines(some, None), "Diagnostics"))
    figures = {"flops": 1.5e9, "arithmetic_intensity": 8.5, "ridge_point": 206.125, "fp16_tflops": 7.5}
    whole = replace(
        some,
        metrics=some.metrics | figures,
        absent={},
        words=some.words | {"ridge_precision": "fp16"},
    )
    lines = section(profile_lines(whole, None), "Diagnostics")
    assert "  operations: 1.500 GFLOP per call" in lines
    assert "  arithmetic intensity: 8.50 FLOP/byte of DRAM traffic (at 206 and above fp16 peak is in reach)" in lines
    assert "  fp16 rate: 7.5 TFLOP/s" in lines


def test_without_counters_it_says_why_and_keeps_what_there_is() -> None:
    lines = profile_lines(saved_profile("counters_refused"), None)
    assert lines[0].startswith("Bottleneck: not known (the driver gives hardware counters to administrators alone")
    assert lines[1] == "  mean kernel duration: 1.11 μs (launches: 9)"
    assert names(lines) == [
        "Kernel Breakdown (by GPU time)", "Diagnostics", "Not Measured", "Change since the Last Profile",
    ]  # fmt: skip
    assert section(lines, "Not Measured") == [
        "  energy: the device's energy counter did not move",
        "  operations, use of DRAM and SMs, stall reasons: the driver gives hardware counters to administrators alone "
        "(ERR_NVGPUCTRPERM)",
    ]


def test_launches_of_one_kernel_are_one_row_and_the_small_ones_one_more() -> None:
    rows = section(profile_lines(saved_profile("counters_refused"), None), "Kernel Breakdown")
    assert rows[:2] == [
        "  3.00 μs  30.0 %  1 x  void step_0<float>(float const*, float*, int)",
        "  3.00 μs  30.0 %  2 x  void step_1<float>(float const*, float*, int)",
    ]
    assert len(rows) == 6 and rows[5] == "  1.00 μs  10.0 %  3 x  in 3 further kernels"
    assert sum(float(row.split(" μs")[0]) for row in rows) == pytest.approx(10.0)


def test_the_use_of_a_kernel_that_ran_twice_is_weighed_by_duration() -> None:
    kernels = [
        ProfiledKernel(name="k", device_time_us=us, dram_percent=dram, compute_percent=50.0)
        for us, dram in ((3.0, 80.0), (1.0, 40.0))
    ]
    rows = section(profile_lines(Profile(kernels=kernels), None), "Kernel Breakdown")
    assert rows == ["  4.00 μs  100.0 %  2 x  k  (DRAM 70.0 %, SM 50.0 %)"]


def test_the_change_is_against_the_profile_before() -> None:
    earlier = Earlier("0123456789ab", saved_profile("two"))
    assert section(profile_lines(saved_profile("copy"), earlier), "Change") == [
        "  against kernel 0123456789ab",
        "  bottleneck: launch -> memory",
        "  device time: 8.00 -> 31.46 μs (+293.2 %)",
        "  launches: 2 -> 1",
        "  DRAM traffic: 0.02 -> 119.54 MB (7471 times)",
        "  DRAM throughput: 8.0 % -> 81.2 % (+73.2 points)",
        "  SM throughput: 7.0 % -> 12.5 % (+5.5 points)",
        "  occupancy: 40.0 % -> 88.4 % (+48.4 points)",
        "  registers per thread: 128 -> 20",
    ]
    assert section(profile_lines(saved_profile("counters_refused"), earlier), "Change") == [
        "  not comparable with kernel 0123456789ab, which was measured by other means"
    ]


@pytest.mark.parametrize("name", PROFILES)
def test_no_profile_tells_of_the_reference(name: str) -> None:
    found = saved_profile(name)
    known = {f"{value:.2f}" for key, value in found.metrics.items() if key.startswith("reference_")}
    assert known
    earlier = Earlier("0123456789ab", saved_profile("two"))
    absent = found.absent | {"reference_peak_bytes": "it failed when it was profiled: y", "fusion_ratio": "none"}
    text = "\n".join(profile_lines(replace(found, absent=absent), earlier))
    assert "reference" not in text and "fusion" not in text and "failed" not in text
    for shown in (*known, "77.77", "7777", "77.0"):
        assert shown not in text


@pytest.mark.parametrize("name", PROFILES)
def test_every_figure_has_a_unit_and_the_text_is_bounded(name: str) -> None:
    found = saved_profile(name)
    kernels = [replace(found.kernels[0], name=f"{'n' * 5000}{number}") for number in range(400)]
    absent = {f"figure_{number}": f"{'why ' * 400}{number % 40}" for number in range(200)} | {
        f"other_{number}": f"{number} reasons" for number in range(40)
    }
    text = "\n".join(profile_lines(replace(found, kernels=kernels, absent=absent), Earlier("0" * 12, found)))
    assert len(text) < 12_000
    lines = profile_lines(found, None)
    for line in section(lines, "Diagnostics"):
        assert re.search(r"%|μs|MB|mJ|bytes|per thread|FLOP", line), line


def test_hints_stand_on_their_figures() -> None:
    assert hints(saved_profile("matmul_fp16")) == []
    [traffic] = hints(saved_profile("copy"))
    assert traffic.startswith("DRAM is at 81.2 % of its peak: only moving fewer bytes helps")
    launches, memory, barrier = hints(saved_profile("two"))
    assert launches.startswith("2 launches of 4.00 μs on average")
    assert memory.startswith("warps spend 42.9 % of their cycles in long_scoreboard")
    assert barrier.startswith("warps spend 42.9 % of their cycles in barrier")
    assert hints(saved_profile("counters_refused")) == hints(Profile()) == []


@pytest.mark.parametrize(
    ("metrics", "words", "expected"),
    [
        ({"load_sectors_per_request": 32.0}, {}, "a warp's global load touches 32.0 sectors"),
        ({"store_sectors_per_request": 20.5}, {}, "a warp's global store touches 20.5 sectors"),
        ({"pipe_fp64_percent": 88.0}, {"dominant_pipe": "fp64"}, "the busiest pipe is fp64, at 88.0 %"),
        (
            {"pipe_tensor_percent": 0.0, "dominant_pipe_percent": 71.0},
            {"dominant_pipe": "fma", "bottleneck": "compute"},
            "the fma pipe is at 71.0 % of its peak and tensor cores at 0.0 %",
        ),
        (
            {"theoretical_occupancy_percent": 25.0, "occupancy_percent": 20.0},
            {"occupancy_limiter": "registers", "bottleneck": "latency"},
            "at most 25.0 % of an SM's warps fit, limited by registers",
        ),
        (
            {"theoretical_occupancy_percent": 100.0, "occupancy_percent": 20.0},
            {"occupancy_limiter": "warps", "bottleneck": "latency"},
            "20.0 % of an SM's warps are there on average, of 100.0 % that fit",
        ),
    ],
)
def test_a_hint_is_given_for_its_figures_alone(metrics: dict[str, float], words: dict[str, str], expected: str) -> None:
    [hint] = hints(Profile(metrics=metrics, words=words))
    assert hint.startswith(expected)
    for key in metrics:
        assert hints(Profile(metrics={k: v for k, v in metrics.items() if k != key}, words=words)) != [hint]


def test_hints_are_few() -> None:
    metrics = {f"stall_{state}_percent": 30.0 for state in STATES}
    assert len(hints(Profile(metrics=metrics, words={"bottleneck": "latency"}))) == HINTS_SHOWN


def test_every_state_but_that_of_issuing_has_words() -> None:
    assert set(STATES) - {"selected"} == set(_STALLS)


def test_the_first_line_says_whether_it_was_profiled() -> None:
    good = profile_text(profiled("good", Stage.PROFILE), 5, None).splitlines()
    assert good[0] == "profile_kernel PASSED: profiling complete."
    assert good[1].startswith("Kernel runtime: ") and good[1].endswith(" μs (device time)")
    assert good[2].startswith("Bottleneck: memory")
    assert profile_text(verdict("broken", Stage.PROFILE), 5, None) == (
        "profile_kernel FAILED: kernel did not compile.\nk.cpp:3: error: expected ';'"
    )
    assert profile_text(verdict("wrong", Stage.PROFILE), 5, None).startswith(
        "profile_kernel FAILED: correctness check did not pass ((2 / 5) trials).\ncorrectness_issue: "
    )
    nothing = Profile(absent={"kernel_launches": "torch's profiler saw no kernel in the forward"})
    empty = Evaluation(status=Status.PASSED, stage=Stage.PROFILE, correctness=correctness(), profile=nothing)
    assert profile_text(empty, 5, None) == (
        "profile_kernel FAILED: no kernel was seen: torch's profiler saw no kernel in the forward."
    )


def asked(cell: Cell, trajectory: Trajectory, *calls: ToolCall) -> list[ToolResult]:
    """The results of calls of one reply, through the journal."""
    agent = cell.loop([says(*calls)], trajectory)
    session = agent.session
    session.turn += 1
    return [session.call(index, one) for index, one in enumerate(calls)]


def test_a_session_compares_with_its_last_profile(cell: Cell, trajectory: Trajectory) -> None:
    cell.judge.settings = EvaluationSettings(device="cuda")
    cell.judge.find = lambda source, stage: profiled(source, stage, "two" if "first" in source else "copy")
    kernels = ("good first", "wrong", "good second")
    first, wrong, second = asked(cell, trajectory, *(call("profile_kernel", kernel_code=code) for code in kernels))
    assert (first.ok, wrong.ok, second.ok) == (True, False, True)
    assert first.solution_sha256 is not None and "this is the first profile of the session" in first.text
    assert f"against kernel {first.solution_sha256[:12]}\n  bottleneck: launch -> memory" in second.text
    assert [stage for _, stage in cell.judge.asked] == [Stage.PROFILE] * 3
    # A process that goes on with the session finds the same earlier profile.
    with Trajectory(cell.path) as reopened:
        again = asked(cell, reopened, *(call("profile_kernel", kernel_code=code) for code in kernels))
        assert [one.text for one in again] == [first.text, wrong.text, second.text]
        agent = cell.loop([says()], reopened)
        third = agent.session.toolbox.run(call("profile_kernel", kernel_id=first.solution_sha256[:12]))
    assert second.solution_sha256 is not None
    assert f"against kernel {second.solution_sha256[:12]}\n  bottleneck: memory -> launch" in third.text


def test_what_is_not_profiled_is_no_result(cell: Cell, trajectory: Trajectory) -> None:
    cell.judge.settings = EvaluationSettings(device="cuda")
    find = partial(profiled, name="copy")
    cell.judge.find = lambda source, stage: replace(find(source, stage), profile=Profile(absent={"sol": "why"}))
    [result] = asked(cell, trajectory, call("profile_kernel", kernel_code="good"))
    assert not result.ok and result.text.startswith("profile_kernel FAILED: no kernel was seen: why.")


@pytest.mark.parametrize("tool", ["profile_kernel", "disassemble_kernel"])
def test_without_a_gpu_they_say_what_they_need(cell: Cell, trajectory: Trajectory, tool: str) -> None:
    [result] = asked(cell, trajectory, call(tool, kernel_code="good"))
    assert result.text == f"{tool} FAILED: it needs device=cuda, and the kernels of this session run on the CPU."
    assert not result.ok and cell.judge.asked == []

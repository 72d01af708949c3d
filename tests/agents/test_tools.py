from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from agent_cell import REFERENCE_US, Cell, call, correctness, says, verdict
from device_evaluations import MEAN, on_h200, profiled, waiting

from agents.budget import Budget
from agents.factory import TOOLS
from agents.protocols import ToolCall, ToolResult
from agents.settings import AgentSettings, BudgetSettings
from agents.tools.get_gpu_specs import cpu_result, facts_result, gpu_result
from agents.tools.kernels import Kernels
from agents.tools.result_text import bounded, built, compile_text, correctness_text, submit_text
from agents.tools.toolbox import Toolbox
from agents.trajectory import Trajectory
from evaluation.device.facts import DeviceFacts, device_facts
from evaluation.settings import EvaluationSettings
from evaluation.verdict import Evaluation, Stage, Status


def answer(cell: Cell, trajectory: Trajectory, asked: ToolCall, **limits: Any) -> ToolResult:
    return cell.loop([says()], trajectory, **limits).session.toolbox.run(asked)


def test_texts_of_a_kernel_that_passes() -> None:
    assert compile_text(verdict("good", Stage.BUILD)) == "compile_kernel PASSED: kernel compiled without errors."
    assert correctness_text(verdict("good", Stage.CORRECTNESS), 5) == (
        "run_correctness PASSED: (5 / 5) trials all matched the reference.\n"
        "Numerical precision: max_abs_err=8.34e-07  mean_abs_err=9.15e-08  max_rel_err=2.98e-05"
    )
    assert submit_text(verdict("good", Stage.TIMING), 5) == (
        "submit_kernel PASSED: (5 / 5) correctness trials all passed.\n"
        "Kernel runtime: 12.50 μs\n"
        "Runtime stats: mean=13.50μs  median=12.50μs  std=0.50μs\n"
        "Numerical precision: max_abs_err=8.34e-07  mean_abs_err=9.15e-08  max_rel_err=2.98e-05"
    )


def test_texts_of_a_kernel_that_does_not_compile() -> None:
    broken = verdict("broken", Stage.BUILD)
    assert compile_text(broken) == "compile_kernel FAILED: COMPILE_ERROR.\nk.cpp:3: error: expected ';'"
    for name, text in (("run_correctness", correctness_text(broken, 5)), ("submit_kernel", submit_text(broken, 5))):
        assert text == f"{name} FAILED: kernel did not compile.\nk.cpp:3: error: expected ';'"


def test_texts_of_a_kernel_that_is_wrong_or_crashes() -> None:
    wrong = verdict("wrong", Stage.CORRECTNESS)
    tail = "correctness_issue: INCORRECT_VALUES: output 0 differs\nmax_difference: 8.34e-07\navg_difference: 9.15e-08"
    assert correctness_text(wrong, 5) == f"run_correctness FAILED: (2 / 5) trials did not all match.\n{tail}"
    assert submit_text(wrong, 5) == f"submit_kernel FAILED: correctness check did not pass ((2 / 5) trials).\n{tail}"
    assert correctness_text(verdict("crash", Stage.CORRECTNESS), 7) == (
        "run_correctness FAILED: (0 / 7) trials did not all match.\nruntime_error: RUNTIME_ERROR: signal 11"
    )


@pytest.mark.parametrize("status", [status for status in Status if not status.correct])
@pytest.mark.parametrize("stage", Stage)
def test_every_failure_has_a_first_line_that_says_so(status: Status, stage: Stage) -> None:
    found = Evaluation(status=status, stage=stage, message="m", correctness=correctness(1))
    texts = [correctness_text(found, 5), submit_text(found, 5)] + ([] if built(found) else [compile_text(found)])
    assert all(text.split()[1] == "FAILED:" and "\n" in text for text in texts)


def test_no_text_tells_the_time_of_the_reference_or_a_seed() -> None:
    for word in ("good", "noisy", "wrong"):
        text = submit_text(verdict(word, Stage.TIMING), 5)
        assert str(int(REFERENCE_US)) not in text and "9181716" not in text and "speed" not in text
    assert submit_text(verdict("noisy", Stage.TIMING), 5).splitlines()[-1].startswith("Note: the clock did not settle")


def test_on_a_device_a_model_hears_both_kinds_of_time_and_what_bounds_them() -> None:
    lines = submit_text(on_h200(MEAN), 8).splitlines()
    assert lines[1:5] == [
        "Kernel runtime: 1.57 μs (device time)",
        "Runtime stats: mean=1.58μs  median=1.57μs  std=0.05μs",
        "End-to-end runtime: 75.22 μs (from the call until the device is idle)",
        "End-to-end stats: mean=131.72μs  median=75.22μs  std=124.80μs",
    ]
    assert lines[5].startswith("Note: launch-bound: ") and lines[-1].startswith("Note: the clock did not settle")
    waits = submit_text(waiting(100.0), 8)
    assert "Note: the call waits for the device, so its end-to-end runtime counts as well." in waits.splitlines()
    assert "launch-bound" not in waits
    for text in ("\n".join(lines), waits):
        assert not [word for word in ("3.87", "62.99", "100.00", "speed", "1.20") if word in text]


def test_a_long_text_keeps_its_head_and_its_tail() -> None:
    text = bounded("submit_kernel FAILED: x\n" + "a" * 50_000 + "\nlast", 1000)
    assert len(text) <= 1000
    assert text.startswith("submit_kernel FAILED: x\n") and text.endswith("\nlast")
    head, _, rest = text.partition("\n...[ omitted ")
    omitted, _, tail = rest.partition(" characters ]...\n")
    assert len(head) + int(omitted) + len(tail) == 50_029 and abs(len(head) - len(tail)) <= 1
    assert bounded("short", 1000) == "short"


def test_escapes_and_control_characters_are_taken_out() -> None:
    assert bounded("\x1b[01;31m\x1b[Kerror\x1b[m: \x07a\tb\r\nc\x00\ud800 é μ", 99) == "error: a\tb\nc é μ"


def test_a_result_ends_with_an_id_that_stands_for_the_source(cell: Cell, trajectory: Trajectory) -> None:
    first = answer(cell, trajectory, call("compile_kernel", kernel_code="good"))
    assert first.solution_sha256 is not None
    kernel_id = first.text.splitlines()[-1].removeprefix("kernel_id: ")
    assert kernel_id == first.solution_sha256[:12]
    second = answer(cell, trajectory, call("run_correctness", kernel_id=kernel_id))
    assert second.solution_sha256 == first.solution_sha256
    assert cell.judge.asked[-1] == ("good", Stage.CORRECTNESS)
    assert (cell.path.parent / "solutions" / f"{kernel_id}.py").read_text() == "good"


WITHOUT_VERDICT = ("get_gpu_specs", "ert_roofline", "static_check")


@pytest.mark.parametrize("tool", [name for name in TOOLS if name not in WITHOUT_VERDICT])
def test_every_tool_takes_a_kernel_by_its_id(cell: Cell, trajectory: Trajectory, tool: str) -> None:
    cell.judge.settings = EvaluationSettings(device="cuda")
    cell.judge.find = profiled
    first = answer(cell, trajectory, call(tool, kernel_code="good"))
    again = answer(cell, trajectory, call(tool, kernel_id=first.solution_sha256[:12]))
    assert first.evaluation is not None and again == replace(first, wall_s=again.wall_s)
    assert cell.judge.asked[0] == cell.judge.asked[1]


@pytest.mark.parametrize(
    ("arguments", "says_"),
    [
        ({}, "give the kernel once, as kernel_code or as kernel_id."),
        ({"kernel_code": ""}, "give the kernel once"),
        ({"kernel_code": "a", "kernel_id": "b"}, "give the kernel once"),
        ({"kernel_code": ["a"]}, "kernel_code must be a string."),
        ({"kernel_id": 7}, "kernel_id must be a string."),
        ({"kernel_id": "../x"}, "there is no kernel with id '../x'; known ids: none so far."),
        ({"kernel_code": "\ud800"}, "kernel_code holds half of a surrogate pair and is not text."),
    ],
)
def test_arguments_that_name_no_kernel_are_answered(
    cell: Cell, trajectory: Trajectory, arguments: dict[str, Any], says_: str
) -> None:
    result = answer(cell, trajectory, call("run_correctness", **arguments))
    assert result.text.startswith(f"run_correctness FAILED: {says_}") and not result.ok
    assert cell.judge.asked == []


@pytest.mark.parametrize("text", ["{", "[1]", "null", "[" * 100_000, "1" * 5000, '{"kernel_code": "a'])
def test_arguments_that_do_not_parse_are_answered(cell: Cell, trajectory: Trajectory, text: str) -> None:
    result = answer(cell, trajectory, ToolCall(id="c", name="compile_kernel", arguments=text))
    assert result.text.startswith("Tool call arguments could not be parsed as JSON: ")
    assert not result.ok and not result.refused


def test_no_arguments_at_all_are_an_empty_object(cell: Cell, trajectory: Trajectory) -> None:
    assert answer(cell, trajectory, ToolCall(id="c", name="get_gpu_specs", arguments="")).ok


def test_an_unknown_tool_is_answered_with_the_known_ones(cell: Cell, trajectory: Trajectory) -> None:
    assert answer(cell, trajectory, call("rm")).text == (
        "Unknown tool 'rm'. Available tools: get_gpu_specs, ert_roofline, compile_kernel, run_correctness, "
        "evaluate_kernel, profile_kernel, disassemble_kernel, static_check, submit_kernel"
    )


def test_text_is_bounded_and_the_clock_runs(cell: Cell, trajectory: Trajectory) -> None:
    def find(source: str, stage: Stage) -> Evaluation:
        return replace(verdict("broken", stage), message="e" * 9000)

    cell.judge.find = find
    cell.toolbox_chars = 500
    result = answer(cell, trajectory, call("compile_kernel", kernel_code="x"))
    assert len(result.text) <= 500 and "kernel_id: " in result.text and result.wall_s > 0
    assert result.evaluation is not None and len(result.evaluation.message) == 9000


def test_faults_of_the_evaluator_pass_through(cell: Cell, trajectory: Trajectory) -> None:
    def find(source: str, stage: Stage) -> Evaluation:
        raise ConnectionError("the judge is gone")

    cell.judge.find = find
    with pytest.raises(ConnectionError):
        answer(cell, trajectory, call("submit_kernel", kernel_code="x"))


def test_schemas_are_open_ai_functions_in_the_order_of_the_config(cell: Cell, trajectory: Trajectory) -> None:
    kernels = Kernels(problem=cell.problem, evaluator=cell.judge, trajectory=trajectory, language="cpp")
    tools = [TOOLS[name](kernels, cell.judge.settings) for name in ("submit_kernel", "get_gpu_specs")]
    schemas = Toolbox(tools, Budget(BudgetSettings()), 99).schemas
    assert [schema["function"]["name"] for schema in schemas] == ["submit_kernel", "get_gpu_specs"]
    assert set(schemas[0]["function"]["parameters"]["properties"]) == {"kernel_code", "kernel_id"}
    assert json.loads(json.dumps(schemas)) == schemas


def test_specs_are_those_of_this_cpu(cell: Cell, trajectory: Trajectory) -> None:
    text = answer(cell, trajectory, call("get_gpu_specs")).text
    model = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
    assert text.splitlines()[0] == f"GPU specs for {model.split(':')[1].strip()}:"
    assert "There is no GPU" in text
    assert f"cores used by a kernel: 1 of {len(os.sched_getaffinity(0))}" in text
    total_kib = int(Path("/proc/meminfo").read_text().split()[1])
    assert f"total memory (runtime): {total_kib / 2**20:.1f} GiB" in text


def test_specs_read_what_the_system_says(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor: 0\nmodel name\t: Test CPU\nflags\t\t: fpu avx2 fma sse4_2\n\nprocessor: 1\n")
    for index, (level, kind, size) in enumerate([("1", "Data", "48K"), ("2", "Unified", "2048K")]):
        folder = tmp_path / f"system/cpu/cpu0/cache/index{index}"
        folder.mkdir(parents=True)
        for name, value in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(f"{value}\n")
    result = cpu_result(2, cpuinfo, tmp_path / "system")
    text = result.text
    assert result.data["name"] == "Test CPU" and result.data["L2 cache (unified)"] == "2048 KiB"
    assert text.splitlines()[0] == "GPU specs for Test CPU:"
    assert "    L1 cache (data): 48 KiB\n    L2 cache (unified): 2048 KiB\n    SIMD: sse4_2 avx2 fma" in text


FACTS = DeviceFacts(
    name="NVIDIA H200",
    uuid="GPU-01234567-89ab-cdef-0123-456789abcdef",
    cuda_driver="13.0",
    compute_capability=(9, 0),
    total_memory_bytes=150_000_000_000,
    sm_count=132,
    sm_clock_khz=1_980_000,
    memory_clock_khz=3_201_000,
    memory_bus_bits=6144,
    l2_bytes=60 * 2**20,
    shared_bytes_per_sm=228 * 1024,
    shared_bytes_per_block=48 * 1024,
    shared_bytes_per_block_optin=227 * 1024,
    registers_per_sm=65536,
    max_threads_per_sm=2048,
    max_threads_per_block=1024,
    max_blocks_per_sm=32,
    warp_threads=32,
)


def test_specs_of_a_gpu_are_its_vendors_and_its_drivers() -> None:
    result = facts_result(FACTS)
    assert (
        result.ok
        and result.text
        == """\
GPU specs for NVIDIA H200:
  total memory (runtime): 150.0 GB
  spec entry: H200 SXM
    DRAM bandwidth: 4800 GB/s
    peak FP64: 34 TFLOPS (ordinary cores)
    peak FP32: 67 TFLOPS (ordinary cores)
    peak TF32: 494.7 TFLOPS (tensor cores, dense)
    peak FP16: 989.4 TFLOPS (tensor cores, dense)
    peak BF16: 989.4 TFLOPS (tensor cores, dense)
    peak FP8: 1978.9 TFLOPS (tensor cores, dense)
    peak INT8: 1978.9 TOPS (tensor cores, dense)
    source: NVIDIA H200 datasheet
  from the driver:
    compute capability: 9.0
    SMs: 132
    maximum SM clock: 1980 MHz
    L2 cache: 61440 KiB
    shared memory per SM: 228 KiB
    shared memory per block: 48 KiB, 227 KiB on request
    registers per SM: 65536 of 32 bits
    threads per SM: 2048
    threads per block: 1024
    blocks per SM: 32
    threads per warp: 32
    DRAM bandwidth (derived): 4917 GB/s, 2 x 3201 MHz x 6144 bits
    CUDA of the driver: 13.0"""
    )
    assert result.data["peak FP16"] == "989.4 TFLOPS (tensor cores, dense)" and result.data["SMs"] == "132"


def test_specs_of_a_gpu_that_no_table_has_are_its_drivers_alone() -> None:
    result = facts_result(replace(FACTS, name="NVIDIA Unheard Of", memory_clock_khz=0))
    lines = result.text.splitlines()
    assert lines[2:4] == ["  no detailed spec entry for this GPU", "  from the driver:"]
    assert "peak" not in result.text and "derived" not in result.text


def test_specs_without_a_driver_are_a_failure_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = str(tmp_path / "libcuda.so.1")
    monkeypatch.setattr("agents.tools.get_gpu_specs.device_facts", partial(device_facts, library=library))
    assert gpu_result() == ToolResult(
        text=f"get_gpu_specs FAILED: this machine has no NVIDIA driver ({library} does not load); run it on a machine "
        "with a GPU.",
        ok=False,
    )


def test_a_roofline_needs_a_gpu(cell: Cell, trajectory: Trajectory) -> None:
    result = answer(cell, trajectory, call("ert_roofline"))
    assert result.text == "ert_roofline FAILED: there is no GPU in this session; it needs device=cuda."
    assert not result.ok


def test_a_roofline_has_units_ridges_and_what_is_missing(cell: Cell, trajectory: Trajectory) -> None:
    cell.judge.settings = EvaluationSettings(device="cuda")
    result = answer(cell, trajectory, call("ert_roofline"))
    how = "best of 5 medians, 40 calls, spread 1.2 %"
    assert result.ok and result.text.splitlines()[:-2] == [
        "ert_roofline PASSED: empirical roofline benchmarks complete.",
        "=== Empirical Roofline Model ===",
        "Device: NVIDIA Test",
        "Measured Bandwidth:",
        f"  L2 read        7123 GB/s  (working set: 20480 KB; {how})",
        f"  DRAM read      4400 GB/s  (working set: 2097152 KB; {how})",
        f"  DRAM copy      4000 GB/s  (working set: 2097152 KB; {how})",
        "Measured Compute Throughput (dense products of square matrices):",
        f"  FP32         51.0 TFLOPS  (rows: 4096; {how})",
        f"  FP16        701.8 TFLOPS  (rows: 8192; {how})",
        f"  INT8         1300.0 TOPS  (rows: 8192; {how})",
        "  FP8: not measured, torch refused: not here",
        "Ridge point (FP32): 11.6 FLOPs/byte",
        "Ridge point (FP16): 159.5 FLOPs/byte",
        "Ridge point (INT8): 295.5 operations/byte",
    ]
    assert result.data["DRAM read"] == "4400 GB/s" and result.data["INT8"] == "1300.0 TOPS"


def test_a_roofline_is_offered_to_those_alone_that_name_it() -> None:
    assert "ert_roofline" in TOOLS and "ert_roofline" not in AgentSettings().tools

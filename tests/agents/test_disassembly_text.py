"""What disassemble_kernel tells."""

from __future__ import annotations

from dataclasses import replace

import pytest
from agent_cell import Cell, call, says, verdict

from agents.budget import Budget
from agents.protocols import ToolResult
from agents.settings import BudgetSettings
from agents.tools.disassemble_kernel import _CLASSES, KERNELS_SHOWN, disassembly_text
from agents.trajectory import Trajectory
from evaluation.disassembly.instructions import _NAMES, OTHER, TENSOR
from evaluation.disassembly.kernel_code import Disassembly, KernelCode
from evaluation.settings import EvaluationSettings
from evaluation.verdict import Build, Evaluation, Stage

PLAIN = KernelCode(
    name="product<64>",
    build="own",
    arch="sm_90a",
    registers=168,
    stack_bytes=0,
    shared_bytes=17408,
    instructions=400,
    mix={"tensor": 160, "alu": 120, "load_global": 80, "control": 40},
    tensor={"HGMMA": 128, "HMMA": 32},
    global_load_bits={"128": 64, "32": 16},
)
SPILLED = KernelCode(
    name="row",
    build="own",
    arch="sm_90a",
    registers=None,
    stack_bytes=344,
    shared_bytes=None,
    instructions=100,
    mix={kind: 10 for kind in list(_NAMES)[:8]} | {"load_local": 12, "store_local": 8},
)


def found(*kernels: KernelCode, total: int | None = None) -> Disassembly:
    return Disassembly(
        evaluation=verdict("good", Stage.BUILD), kernels=list(kernels), kernels_total=total or len(kernels)
    )


def test_a_kernel_with_tensor_cores_and_without_spills() -> None:
    assert disassembly_text(found(PLAIN)).splitlines() == [
        "disassemble_kernel PASSED: disassembly analysis complete.",
        "Functions on the device: 1, for sm_90a. Counts are of instructions in the code, not of executions.",
        "--- product<64> (build own, sm_90a) ---",
        "  registers: 168 per thread",
        "  static shared memory: 17408 bytes per block",
        "  stack: 0 bytes per thread",
        "  spills: none",
        "  tensor cores: used (128 HGMMA, 32 HMMA)",
        "  instructions: 400",
        "    tensor cores: 160 (40.0 %)",
        "    integers, logic, comparisons: 120 (30.0 %)",
        "    global loads: 80 (20.0 %)",
        "    control: 40 (10.0 %)",
        "  global loads by width per thread: 64 of 128 bits, 16 of 32 bits",
    ]


def test_a_kernel_that_spills() -> None:
    lines = disassembly_text(found(SPILLED)).splitlines()
    assert "  registers: not stated by the compiler" in lines
    assert "  static shared memory: not stated by the compiler" in lines
    assert "  stack: 344 bytes per thread" in lines
    assert (
        "  spills: local memory is used, 8 stores and 12 loads: registers were spilled, or an array is indexed by what "
        "is known only at run time"
    ) in lines
    assert "  tensor cores: not used" in lines
    assert lines[-1] == "    2 further classes: 20 (20.0 %)"


def test_only_the_largest_functions_are_shown() -> None:
    many = [replace(PLAIN, name=f"{'n' * 200}{number}") for number in range(64)]
    text = disassembly_text(found(*many, total=300))
    assert text.count("  registers: ") == KERNELS_SHOWN and len(text) < 6_000
    assert text.splitlines()[-1] == f"--- {300 - KERNELS_SHOWN} smaller functions are not shown ---"


def test_without_code_it_says_why() -> None:
    absent = Disassembly(evaluation=verdict("good", Stage.BUILD), absent="the native builds hold no code for a GPU")
    assert disassembly_text(absent) == "disassemble_kernel FAILED: the native builds hold no code for a GPU."
    broken = Disassembly(evaluation=verdict("broken", Stage.BUILD), absent="the kernel did not build: COMPILE_ERROR")
    assert disassembly_text(broken) == (
        "disassemble_kernel FAILED: kernel did not compile.\nk.cpp:3: error: expected ';'"
    )


def test_every_class_has_words() -> None:
    assert set(_CLASSES) == {*_NAMES, TENSOR, OTHER}


def asked(cell: Cell, trajectory: Trajectory, code: str) -> ToolResult:
    cell.judge.settings = EvaluationSettings(device="cuda")
    return cell.loop([says()], trajectory).session.toolbox.run(call("disassemble_kernel", kernel_code=code))


def test_a_call_builds_and_is_charged_for_its_builds(cell: Cell, trajectory: Trajectory) -> None:
    built = Build(name="own", tier="lite", cached=False, wall_s=1.0, key="k1")

    def find(source: str, stage: Stage) -> Evaluation:
        return replace(verdict(source, stage), builds=[built], wall_s={"queue": 2.5})

    cell.judge.find = find
    cell.judge.kernels = [PLAIN]
    result = asked(cell, trajectory, "good")
    assert result.ok and cell.judge.asked == [("good", Stage.BUILD)]
    assert result.solution_sha256 is not None
    assert result.text.splitlines()[-1] == f"kernel_id: {result.solution_sha256[:12]}"
    budget = Budget(BudgetSettings())
    budget.spent.add_result(result)
    assert (budget.spent.built, budget.spent.queue_s, budget.spent.gpu_s) == ({"k1"}, 2.5, 0.0)


@pytest.mark.parametrize("code", ["good", "broken"])
def test_a_call_without_code_is_no_success(cell: Cell, trajectory: Trajectory, code: str) -> None:
    result = asked(cell, trajectory, code)
    assert not result.ok and result.text.startswith("disassemble_kernel FAILED: ")

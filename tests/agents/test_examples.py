"""The worked examples that a prompt shows are real: they build, and do what the reference beside them does."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from cuda_candidates import request_of

from agents import prompts
from agents.settings import AgentSettings
from evaluation.building.compile import Workshop
from evaluation.building.places import Places
from evaluation.building.sources import LITE, plan
from evaluation.building.toolchain import Toolchain
from evaluation.client import Evaluator
from evaluation.settings import EvaluationSettings, LimitSettings
from evaluation.verdict import Solution, Stage
from problems.library import read_problem

INPUTS = """

def get_inputs():
    return [torch.randn(33, 65), torch.randn(33, 65)]


def get_init_inputs():
    return []
"""


def blocks(backend: str) -> tuple[str, str]:
    """(reference, replacement) of an example."""
    text = (prompts._ROOT / "examples" / f"{backend}.md").read_text(encoding="utf-8")
    reference, replacement = (block.split("```")[0] for block in text.split("```python\n")[1:])
    return reference, replacement


def test_there_is_one_example_for_each_backend() -> None:
    choices = AgentSettings.__dataclass_fields__["backend"].metadata["choices"]
    assert {path.stem for path in prompts._ROOT.glob("examples/*.md")} == set(choices) == set(prompts._LANGUAGES)
    assert len({blocks(backend)[0] for backend in choices}) == 1


def test_the_cpp_example_is_judged_correct(tmp_path: Path) -> None:
    reference, replacement = blocks("cpp")
    path = tmp_path / "1_add_relu.py"
    path.write_text(f"import torch\nimport torch.nn as nn\n\n\n{reference}{INPUTS}")
    with Evaluator(EvaluationSettings(draws=2), tmp_path / "cache", tmp_path / "log") as evaluator:
        found = evaluator.evaluate(read_problem(path), Solution(source=replacement), Stage.CORRECTNESS)
    assert found.status.correct, found.message
    assert found.correctness.draws_passed == found.correctness.draws_total
    assert [build.tier for build in found.builds] == ["lite"]


@pytest.mark.skipif(Toolchain.find().nvcc is None, reason="nvcc is not installed")
def test_the_cuda_example_compiles(tmp_path: Path) -> None:
    path = tmp_path / "candidate.py"
    path.write_text(blocks("cuda")[1])
    request, _ = request_of(path)
    toolchain = Toolchain.find()
    workshop = Workshop(toolchain=toolchain, limits=LimitSettings(), scratch=tmp_path, places=Places(tmp_path, 2))
    with workshop.bench(plan(request, LITE, toolchain, "90a", tmp_path)) as bench:
        outcomes = list(bench.compile_units())
    assert outcomes and all(outcome.ok for outcome in outcomes), outcomes


def test_the_triton_example_defines_a_kernel_and_launches_it() -> None:
    tree = ast.parse(blocks("triton")[1])
    jitted = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and any(ast.unparse(mark) == "triton.jit" for mark in node.decorator_list)
    }
    launched = {
        node.func.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript) and isinstance(node.func.value, ast.Name)
    }
    assert jitted and launched == jitted

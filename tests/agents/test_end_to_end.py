"""Agents with the real judge: candidates are plain torch, so that nothing is compiled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from agent_cell import Cell, call, says

from agents.factory import build_agent
from agents.models.open_gate import OpenGate
from agents.protocols import ExitStatus
from agents.requests import requests_sent
from agents.settings import AgentKind, AgentSettings, BestOfNSettings, BudgetSettings, ModelSettings, SessionSettings
from agents.trajectory import Trajectory
from evaluation.client import Evaluator
from evaluation.settings import EvaluationSettings, TimingSettings
from evaluation.verdict import Solution, Stage

MEAN = """\
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return {body}
"""


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluator]:
    """The problem has eight kinds of values, and each is drawn at least once."""
    folder = tmp_path_factory.mktemp("judge")
    settings = EvaluationSettings(draws=2, timing=TimingSettings(budget_s=0.3, min_blocks=6))
    with Evaluator(settings, folder / "cache", folder / "log") as started:
        yield started


def test_a_session_with_the_real_judge(cell: Cell, trajectory: Trajectory, evaluator: Evaluator) -> None:
    cell.judge = evaluator
    script = [
        says(call("compile_kernel", kernel_code="import torch\n\nclass ModelNew(")),
        says(call("run_correctness", kernel_code=MEAN.format(body="x.sum(dim=0)"))),
        says(call("run_correctness", kernel_code=MEAN.format(body="x.sum(dim=0) / x.shape[0]"), id="d")),
        says(call("submit_kernel", kernel_code=MEAN.format(body="x.sum(dim=0) / x.shape[0]"))),
    ]
    assert cell.loop(script, trajectory, turns=9).run() is ExitStatus.SUBMITTED
    results = [event["result"] for event in trajectory.events if event["kind"] == "tool_result"]
    assert [result["text"].splitlines()[0] for result in results] == [
        "compile_kernel FAILED: COMPILE_ERROR.",
        "run_correctness FAILED: (0 / 8) trials did not all match.",
        "run_correctness PASSED: (8 / 8) trials all matched the reference.",
        "submit_kernel PASSED: (8 / 8) correctness trials all passed.",
    ]
    assert "correctness_issue: INCORRECT_VALUES: " in results[1]["text"]
    latency = results[3]["evaluation"]["timing"]["candidate"]
    assert f"Kernel runtime: {latency['median_us']:.2f} μs" in results[3]["text"]
    assert [result["evaluation"]["solution_sha256"] for result in results] == [
        result["solution_sha256"] for result in results
    ]


def test_a_model_that_answers_in_text_with_the_real_judge(
    cell: Cell, trajectory: Trajectory, evaluator: Evaluator
) -> None:
    cell.judge = evaluator
    bodies = ["x.sum(dim=0)", "x.sum(dim=0) / x.shape[0]"]
    script = [says(text=f"```python\n{MEAN.format(body=body)}```") for body in bodies]
    agent = cell.text(AgentKind.best_of_n, script, trajectory, turns=2, best_of_n=BestOfNSettings(turns_per_try=2))
    assert agent.run() is ExitStatus.TURNS_SPENT
    results = [event["result"] for event in trajectory.events if event["kind"] == "tool_result"]
    assert [result["ok"] for result in results] == [False, True]
    told = requests_sent(trajectory.events)[1].messages[-1]["content"]
    assert told.startswith("evaluate_kernel FAILED: correctness check did not pass ((0 / 8) trials).")


def test_the_reference_submitted_as_a_candidate_passes(
    cell: Cell, trajectory: Trajectory, evaluator: Evaluator
) -> None:
    settings = SessionSettings(
        agent=AgentSettings(kind=AgentKind.baseline), model=ModelSettings(), budget=BudgetSettings()
    )
    agent = build_agent(settings, problem=cell.problem, evaluator=evaluator, trajectory=trajectory, gate=OpenGate())
    assert agent.run() is ExitStatus.SUBMITTED
    source = trajectory.source(trajectory.events[1]["solution_sha256"][:12])
    found = evaluator.evaluate(cell.problem, Solution(source=source, language="python"), Stage.TIMING)
    assert found.status.correct
    correctness = found.correctness
    assert correctness.candidate_rms_error == pytest.approx(correctness.reference_rms_error, rel=0.5)
    assert 0.3 < found.timing.speedup < 3.0

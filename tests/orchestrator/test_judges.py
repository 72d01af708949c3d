"""What agent loops ask of the judges that they share."""

from __future__ import annotations

from pathlib import Path

from agents.scaffolds.baseline import reference_as_candidate
from evaluation.settings import EvaluationSettings
from evaluation.verdict import Solution, Stage, Status
from orchestrator.sweep.judges import Judges
from problems.library import Library


def test_a_judge_that_evaluates_takes_apart_too(tmp_path: Path) -> None:
    problem = Library().load("level1/24_row_softmax")
    solution = Solution(source=reference_as_candidate(problem), language="python")
    with Judges(tmp_path / "cache", tmp_path / "judge.log", 1) as judges:
        judge = judges.of(EvaluationSettings())
        assert judge.evaluate(problem, solution, Stage.BUILD).status is Status.PASSED
        found = judge.disassemble(problem, solution)
        assert (judges.running, judges.at_work) == (1, 0)
    assert found.kernels == [] and found.absent.startswith("the module has no native build")
    assert found.evaluation.status is Status.PASSED and found.evaluation.wall_s["queue"] >= 0

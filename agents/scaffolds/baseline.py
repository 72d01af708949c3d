"""The agent that submits the reference itself: an A/A check of the whole path, with no model in it."""

from __future__ import annotations

from dataclasses import dataclass

from agents.protocols import ExitStatus, ToolCall, ToolResult
from agents.trajectory import Trajectory
from problems.problem import Problem


def reference_as_candidate(problem: Problem) -> str:
    """The problem's own source, with its `Model` under the name that a candidate has."""
    return f"{problem.source.rstrip()}\n\n\nclass ModelNew(Model):\n    pass\n"


@dataclass(slots=True, kw_only=True)
class Baseline:
    """Hands in one kernel, without a turn; the grade alone judges it."""

    problem: Problem
    trajectory: Trajectory

    def run(self) -> ExitStatus:
        """Hand in and stop."""
        call = ToolCall(id="baseline", name="submit_kernel", arguments="{}")
        self.trajectory.tool_result(0, 0, call, self._hand_in)
        self.trajectory.exit(ExitStatus.SUBMITTED)
        return ExitStatus.SUBMITTED

    def _hand_in(self, _: ToolCall) -> ToolResult:
        sha256 = self.trajectory.keep(reference_as_candidate(self.problem))
        return ToolResult(text="The reference was handed in.", ok=True, solution_sha256=sha256, ends_run=True)

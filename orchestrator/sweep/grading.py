"""The grade of a cell, given after the agent has stopped, on inputs that none of its tools has used.

The best verified kernel wins, whether it was submitted or not. Every verdict is journaled before it counts, so that a
killed process goes on where it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from agents.trajectory import Trajectory
from evaluation.client import Evaluates, EvaluatorError
from evaluation.profile.brief import without
from evaluation.serialize import from_plain, to_plain
from evaluation.verdict import Evaluation, Solution, Stage
from orchestrator.store.journal import Turn, turns
from problems.problem import Problem

log = logging.getLogger(__name__)

NO_SOLUTION = "NO_SOLUTION"
SELECTION_LIMIT = 3
"""How many verified kernels without a timing are timed to find the best: the most recent ones."""

FINAL, SELECTION = "final", "selection"
"""What a kernel is judged for."""
SUBMIT = "submit_kernel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """The kernel that stands for the cell and its verdict; neither when the agent wrote none."""

    solution_sha256: str | None = None
    evaluation: Evaluation | None = None

    @property
    def verdict(self) -> str:
        """The status, or NO_SOLUTION."""
        return self.evaluation.status.value if self.evaluation else NO_SOLUTION


def grade(trajectory: Trajectory, evaluate: Callable[[str, str], Evaluation]) -> Grade:
    """Choose the cell's kernel and judge it once more. `evaluate` takes a source, and what it is judged for, as far as
    its timing at least.

    Without a verified kernel the last one submitted, else the last one written, is judged, so that the verdict has a
    status. Raises what `evaluate` raises.
    """
    desk = _Desk(trajectory, evaluate)
    chosen = desk.best() or _last_written(turns(trajectory.events))
    if chosen is None:
        return Grade()
    return Grade(solution_sha256=chosen, evaluation=desk.judge(chosen, FINAL))


def judged_with_profile(evaluator: Evaluates, problem: Problem, solution: Solution) -> Evaluation:
    """The verdict with its profile. A profile that takes the evaluator down costs itself, not the verdict."""
    try:
        return evaluator.evaluate(problem, solution, Stage.PROFILE)
    except EvaluatorError as error:
        log.warning("judging %s once more, without its profile: %s", problem.name, error)
        found = evaluator.evaluate(problem, solution, Stage.TIMING)
        if not found.status.correct:
            return found
        return replace(found, profile=without(f"the evaluator failed at it: {error}"))


class _Desk:
    def __init__(self, trajectory: Trajectory, evaluate: Callable[[str, str], Evaluation]) -> None:
        self._trajectory = trajectory
        self._evaluate = evaluate
        self._lower_bounds: dict[str, float] = {}
        """Verified kernel -> lower end of its speed-up's interval."""
        self._untimed: list[str] = []
        """Verified kernels without a timing, oldest first."""
        self._sort_verified()

    def best(self) -> str | None:
        """The fastest verified kernel by what is certain of its speed-up; None when none was verified."""
        if len(self._untimed) + len(self._lower_bounds) == 1:
            return (self._untimed or list(self._lower_bounds))[0]
        for sha256 in self._untimed[-SELECTION_LIMIT:]:
            timing = self.judge(sha256, SELECTION).timing
            if timing is not None:
                self._lower_bounds[sha256] = timing.speedup_low
        if self._lower_bounds:
            return max(self._lower_bounds, key=lambda sha256: self._lower_bounds[sha256])
        return self._untimed[-1] if self._untimed else None

    def judge(self, sha256: str, purpose: str) -> Evaluation:
        """The journaled verdict for this purpose, or a new one, journaled."""
        for event in self._trajectory.events:
            if event["kind"] == "grade" and (event["solution_sha256"], event["purpose"]) == (sha256, purpose):
                return from_plain(Evaluation, event["evaluation"])
        source = self._trajectory.source(sha256[:12])
        if source is None:
            raise FileNotFoundError(f"{self._trajectory.path.parent}/solutions/{sha256[:12]}.py is gone")
        evaluation = self._evaluate(source, purpose)
        self._trajectory.append("grade", solution_sha256=sha256, evaluation=to_plain(evaluation), purpose=purpose)
        return evaluation

    def _sort_verified(self) -> None:
        last_seen: dict[str, None] = {}
        for turn in turns(self._trajectory.events):
            for call in turn.calls:
                verdict, sha256 = call.verdict, call.solution_sha256
                if verdict is None or sha256 is None or not verdict.status.correct or verdict.correctness is None:
                    continue
                last_seen.pop(sha256, None)
                last_seen[sha256] = None
                if verdict.timing is not None:
                    self._lower_bounds[sha256] = verdict.timing.speedup_low
        self._untimed = [sha256 for sha256 in last_seen if sha256 not in self._lower_bounds]


def _last_written(all_turns: list[Turn]) -> str | None:
    written = [call for turn in all_turns for call in turn.calls if call.solution_sha256 is not None]
    submitted = [call for call in written if call.tool == SUBMIT]
    return (submitted or written)[-1].solution_sha256 if written else None

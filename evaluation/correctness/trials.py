"""Draws of secret inputs, and what they say about outputs: the correctness of one candidate, added up."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation.correctness.closeness import close, stacked_close
from evaluation.correctness.compare import Comparison, compare
from evaluation.correctness.figures import ErrorFigures
from evaluation.correctness.kernelbench import TOLERANCE, kernelbench_verdict
from evaluation.correctness.nested import structure_fault, tensors
from evaluation.correctness.oracle import Oracle
from evaluation.correctness.stochastic import (
    REPEATS,
    Law,
    TimedCalls,
    is_random,
    judge_samples,
    judge_values,
    kept_by_both,
    law_of,
)
from evaluation.correctness.tolerance import UNKNOWN_TERMS, Yardstick
from evaluation.settings import EvaluationSettings
from evaluation.verdict import Correctness, Draw, Status
from evaluation.worker.arm import room_for
from problems.inputs import LoadedProblem
from problems.problem import DIRECTIONS, Problem, ProblemError, Stochastic

_SMALL_BYTES = 2**28


def new_seed() -> int:
    """From the operating system's entropy; nothing that a candidate has seen predicts it."""
    return secrets.randbits(62)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one draw will be."""

    case: str
    in_first_set: bool
    """Whether its values are as the file draws them, unless the file declares otherwise."""
    shapes: str
    as_timed: bool
    """Whether it has the distribution and the sizes of timed calls."""


def planned(problem: Problem, settings: EvaluationSettings) -> list[Plan]:
    """All draws of one evaluation: every case of the problem at least once, in an order that nobody can foresee.

    One has the sizes that the file states, of its first value set.
    """
    first_set = problem.value_sets[0]
    cases = itertools.islice(itertools.cycle(problem.cases), problem.draws_total(settings.draws))
    plans = [
        Plan(
            case=case,
            in_first_set=case in DIRECTIONS.get(first_set, (first_set,)),
            shapes=settings.shapes if index else "fixed",
            as_timed=index == 0,
        )
        for index, case in enumerate(cases)
    ]
    secrets.SystemRandom().shuffle(plans)
    return plans


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One draw and its right answers."""

    seed: int
    plan: Plan
    dims: dict[str, int]
    inputs: list[Any]
    """At the precision asked for, as the candidate gets them."""
    native: Any
    exact: Any
    yardstick: Yardstick
    law: Law | None = None
    """Of a reference that draws random numbers; None for others, whose answer is `exact`."""

    @property
    def calls(self) -> int:
        """How often the candidate is asked on these inputs."""
        return 1 if self.law is None else REPEATS

    @property
    def most_output_bytes(self) -> int:
        """That are read of an output."""
        return room_for(self.native)


@dataclass(slots=True)
class Trials:
    """The draws of one evaluation, all under one set of weights."""

    loaded: LoadedProblem
    oracle: Oracle
    settings: EvaluationSettings
    plans: list[Plan] = field(init=False)
    _draws: list[Draw] = field(default_factory=list)
    _figures: ErrorFigures = field(default_factory=ErrorFigures)
    _kernelbench: bool | None = None
    _tolerance: str = ""
    _timed_calls: TimedCalls | None = None
    _timed_terms: int = 1
    """Summands of an output for inputs like the timed ones."""
    small: bool = True
    """Whether several draws fit into memory at once without a thought."""

    def __post_init__(self) -> None:
        self.plans = planned(self.loaded.problem, self.settings)

    def reference_changes_inputs(self) -> bool:
        """Whether the reference writes to its inputs. Raises ProblemError if it is not as random as it declares."""
        inputs = self.loaded.calls(new_seed(), 1)[0]
        declared = self.loaded.problem.stochastic
        random = is_random(self.oracle, inputs, self.settings.precision, declared)
        if random and declared is None:
            raise ProblemError(
                f"problem {self.loaded.problem.name}: the reference answers the same inputs otherwise at every call; "
                'declare STOCHASTIC = {"rule": "mask", "drop": P} or {"rule": "moments"} in its file (docs/problems.md)'
            )
        if declared is not None and not random:
            raise ProblemError(
                f"problem {self.loaded.problem.name} declares STOCHASTIC, but its reference draws no random numbers"
            )
        self.small = sum(tensor.nbytes for tensor in tensors(inputs)) <= _SMALL_BYTES
        return bool(self.oracle.mutates_inputs(inputs))

    def trial(self, plan: Plan) -> Trial:
        """A draw as planned, from entropy of its own."""
        seed = new_seed()
        draw = self.loaded.draw(seed, shapes=plan.shapes, value_set=plan.case)
        declared = self.loaded.problem.stochastic
        law = None if declared is None else law_of(self.oracle, draw.inputs, declared)
        exact = self.oracle.oracle(draw.inputs) if law is None else law.exact
        # Takes the most memory: so the copies below come later.
        yardstick = self.oracle.yardstick(draw.inputs, exact) if law is None else Yardstick()
        trial = Trial(
            seed=seed,
            plan=plan,
            dims=draw.dims,
            inputs=self.oracle.at_precision(draw.inputs),
            native=self.oracle.native(draw.inputs) if law is None else law.native,
            exact=exact,
            yardstick=yardstick,
            law=law,
        )
        self.oracle.give_back_memory()
        if plan.as_timed:
            self._timed_terms = trial.yardstick.terms
        return trial

    def judge(self, trial: Trial, outputs: Sequence[Any]) -> Comparison:
        """Compare what the candidate answered to all calls of a draw and add it to the figures."""
        if trial.law is not None:
            comparison = judge_samples(outputs, trial.law, self.settings.precision)
        else:
            (output,) = outputs
            comparison = compare(output, trial.native, trial.exact, self.settings.precision, trial.yardstick)
        if trial.plan.in_first_set and self._kernelbench is not False:
            # Its check knows no other inputs than those that the file draws.
            self._kernelbench = kernelbench_verdict(outputs[0], trial.native, self.settings.precision)
        self._tolerance = self._tolerance or comparison.tolerance
        if comparison.figures is not None:
            self._figures = self._figures.merge(comparison.figures)
            self._draws.append(
                Draw(
                    seed=trial.seed,
                    value_set=trial.plan.case,
                    dims=trial.dims,
                    passed=comparison.passed,
                    max_abs_error=comparison.figures.max_abs_error,
                    max_rel_error=comparison.figures.max_rel_error,
                )
            )
        return comparison

    def still_needed(self, plans: Sequence[Plan]) -> list[Plan]:
        """Of the draws that are left after a wrong output: one of the first value set, if there was none so far."""
        known = self._kernelbench is not None or self.settings.precision not in TOLERANCE
        return [] if known else [plan for plan in plans if plan.in_first_set][:1]

    def correctness(self, weights_rule: str) -> Correctness | None:
        """The record so far; None when no output could be measured."""
        if not self._draws:
            return None
        figures = self._figures
        return Correctness(
            draws=list(self._draws),
            draws_total=len(self.plans),
            max_abs_error=figures.max_abs_error,
            mean_abs_error=figures.mean_abs_error,
            max_rel_error=figures.max_rel_error,
            mean_rel_error=figures.mean_rel_error,
            reference_rms_error=figures.reference_rms_error,
            candidate_rms_error=figures.candidate_rms_error,
            tolerance=self._tolerance,
            kernelbench_passed=self._kernelbench,
            weights_rule=weights_rule,
        )

    def timed_inputs(self, calls: int) -> list[list[Any]]:
        """Fresh inputs of the file's own sizes, as both arms get them."""
        drawn = self.loaded.calls(new_seed(), calls)
        # One call's inputs are there twice at a time, not all of them.
        return [self.oracle.at_precision(drawn.pop(0)) for _ in range(calls)]

    def judge_timed(
        self, batch: Sequence[list[Any]], expected: Sequence[Any], outputs: Sequence[Any]
    ) -> Comparison | None:
        """The comparison that one of a block's outputs fails; None when all are right.

        Nearly every output is so near to the reference arm's that the oracle need not be asked (closeness.py).
        """
        if self.loaded.problem.stochastic is not None:
            return self._judge_timed_random(batch, expected, outputs, self.loaded.problem.stochastic)
        if stacked_close(outputs, expected, self.settings.precision, self._timed_terms):
            return None
        for inputs, right, output in zip(batch, expected, outputs, strict=True):
            if close(output, right, self.settings.precision, self._timed_terms):
                continue
            exact, native = self.oracle.oracle(inputs), self.oracle.native(inputs)
            precision = self.settings.precision
            # A condition only makes units larger, and costs many runs of the reference.
            if compare(output, native, exact, precision, Yardstick(terms=self._timed_terms)).passed:
                continue
            comparison = compare(output, native, exact, precision, self.oracle.yardstick(inputs, exact))
            if not comparison.passed:
                return comparison
        return None

    def _judge_timed_random(
        self, batch: Sequence[list[Any]], expected: Sequence[Any], outputs: Sequence[Any], declared: Stochastic
    ) -> Comparison | None:
        """Where the reference arm has kept or fixed the same elements they agree; what is drawn is drawn alike."""
        precision = self.settings.precision
        for inputs, right, output in zip(batch, expected, outputs, strict=True):
            fault = structure_fault(output, right) is not None
            if not fault and (
                declared.rule == "moments" or close(*kept_by_both(right, output), precision, UNKNOWN_TERMS)
            ):
                continue
            comparison = judge_values(output, law_of(self.oracle, inputs, declared), precision)
            if not comparison.passed:
                return comparison
        self._timed_calls = self._timed_calls or TimedCalls(declared)
        complaint = self._timed_calls.complaint(expected, outputs)
        if complaint is None:
            return None
        return Comparison(
            status=Status.INCORRECT_VALUES,
            message=f"its random numbers: {complaint}",
            figures=None,
            tolerance=self._tolerance,
        )

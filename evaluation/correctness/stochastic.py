"""References that draw random numbers: judged by the rule that the problem declares, never element by element.

`mask`: every element is dropped, that is 0, or kept, and a kept one has a value that depends on the inputs alone.
Values are held to the common rule; which of them are dropped is judged by statistics.

`moments`: elements that do not vary are held to the common rule, the others are judged by statistics alone.

The statistics are `evaluation.correctness.statistics`: of a candidate's repeated calls on the same inputs, against
those of fresh runs of the reference. So whatever the reference's random numbers depend on is allowed, and asked for.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from evaluation.correctness.compare import Comparison, compare
from evaluation.correctness.nested import map_tensors, structure_fault, tensors
from evaluation.correctness.oracle import Oracle
from evaluation.correctness.statistics import LIMIT, Sample, differing
from evaluation.verdict import Status
from problems.inputs import seeded_torch
from problems.problem import ProblemError, Stochastic

REPEATS = 12
"""Calls of a candidate on the same inputs."""
_RUNS = 32
"""Of the reference: to standardise by, and as many again to compare with."""
_NEVER_KEPT = 1e-6
"""Chance at most that any element was dropped in every run and is therefore taken for a 0."""
_NEVER_DIFFERS = 1e-9
"""Chance at most that a random reference answers so many runs alike."""
_SAME_VALUE = 1e-9
"""Relative difference up to which two float64 runs have kept the same value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leaf:
    """One floating tensor of the output; all tensors are float64 and of its shape."""

    fixed: torch.Tensor
    """What an element is that does not vary or is kept."""
    varies: torch.Tensor
    """Where it may be otherwise; bools."""
    centre: torch.Tensor
    deviation: torch.Tensor
    """Of what is standardised; 1 where nothing varies."""
    samples: Sample
    """Of the reference."""
    never_alike: bool
    """Whether no two runs of the reference in succession were equal: few elements may happen to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """How the reference's answers to one set of inputs are distributed."""

    declared: Stochastic
    native: Any
    """One of the answers at the problem's precision, for the structure and what is no floating tensor."""
    exact: Any
    """The same in float64."""
    leaves: list[_Leaf]
    """Of the floating tensors, in order."""


def is_random(oracle: Oracle, inputs: list[Any], precision: str, declared: Stochastic | None) -> bool:
    """Whether two runs of the reference under different seeds differ by more than rounding.

    One that is declared to draw random numbers is given many runs to do so: few elements may happen to be alike.
    """
    first = _run(oracle.native, inputs)
    runs = (_run(oracle.native, inputs) for _ in range(1 if declared is None else _runs_to_differ(first, declared)))
    return any(not compare(run, first, first, precision).passed for run in runs)


def _runs_to_differ(first: Any, declared: Stochastic) -> int:
    """Runs of which one surely differs from the first: drops another element, where that is what is random."""
    if declared.drop is None:
        return 4 * _RUNS
    elements = sum(leaf.numel() for leaf in _floating(first))
    alike = max(elements, 1) * math.log(max(declared.drop, 1 - declared.drop))
    return max(4 * _RUNS, math.ceil(math.log(_NEVER_DIFFERS) / alike))


def law_of(oracle: Oracle, inputs: list[Any], declared: Stochastic) -> Law:
    """Run the reference often enough to know. Raises ProblemError where it does not keep to its declaration."""
    native = _run(oracle.native, inputs)
    parts = [_kept, _moments][declared.rule == "moments"](oracle, inputs, declared)
    runs = [_floating(_run(oracle.native, inputs)) for _ in range(_RUNS)]
    leaves = []
    for index, (fixed, varies, centre, deviation) in enumerate(parts):
        drawn = [_standard(run[index], declared, varies, centre, deviation) for run in runs]
        leaves.append(
            _Leaf(
                fixed=fixed,
                varies=varies,
                centre=centre,
                deviation=deviation,
                samples=Sample.of(drawn, slices=True),
                never_alike=not any(torch.equal(*pair) for pair in itertools.pairwise(drawn)),
            )
        )
        if declared.drop is not None and bool(varies.any()):
            _check_share(torch.stack([run[index] == 0 for run in runs])[:, varies], declared.drop, oracle.name)
    return Law(declared=declared, native=native, exact=_run(oracle.oracle, inputs), leaves=leaves)


def _check_share(dropped: torch.Tensor, drop: float, name: str) -> None:
    """Whether the share that is `dropped` (runs, elements) is as declared. Raises ProblemError where it is not.

    How far it may be off follows from the runs, and from the declaration: in few elements none may have been dropped.
    """
    shares = dropped.double().mean(1)
    deviation = max(float(shares.std()), math.sqrt(drop * (1 - drop) / dropped.shape[1]))
    if abs(float(shares.mean()) - drop) > LIMIT * deviation / math.sqrt(len(shares)):
        raise ProblemError(
            f"problem {name}: it declares drop={drop:g}, but the reference drops {float(shares.mean()):.3g}"
        )


def judge_samples(outputs: Sequence[Any], law: Law, precision: str) -> Comparison:
    """Judge the candidate's answers to REPEATS calls on the law's inputs: each by itself, then all together."""
    for output in outputs:
        comparison = judge_values(output, law, precision)
        if not comparison.passed:
            return comparison
    return _statistics_judged(outputs, law, comparison)


def _statistics_judged(outputs: Sequence[Any], law: Law, passed: Comparison) -> Comparison:
    complaint = None
    for index, leaf in enumerate(law.leaves):
        if complaint is not None or not bool(leaf.varies.any()):
            continue
        drawn = [_floating(output)[index] for output in outputs]
        if leaf.never_alike and all(torch.equal(one, drawn[0]) for one in drawn):
            complaint = "it answers all calls on the same inputs alike; the reference draws anew for each"
            continue
        standard = [_standard(one, law.declared, leaf.varies, leaf.centre, leaf.deviation) for one in drawn]
        complaint = differing(Sample.of(standard, slices=True), leaf.samples)
    if complaint is None:
        return passed
    return dataclasses.replace(passed, status=Status.INCORRECT_VALUES, message=f"its random numbers: {complaint}")


def _targets(output: Any, law: Law) -> tuple[Any, Any]:
    """Reference and oracle for the common rule, which agree with `output` wherever the law leaves it free."""
    theirs, leaves = tensors(output), iter(law.leaves)
    if len(theirs) != len(tensors(law.native)):
        return law.native, law.exact
    wanted = []
    for mine, reference, exact in zip(theirs, tensors(law.native), tensors(law.exact), strict=True):
        if not reference.is_floating_point():
            wanted.append(exact)
            continue
        leaf = next(leaves)
        if structure_fault(mine, reference) is not None:
            wanted.append(leaf.fixed)
        elif law.declared.rule == "mask":
            wanted.append(torch.where(leaf.varies & (mine == 0), 0.0, leaf.fixed))
        else:
            # What varies must be a number where the reference's was one in all runs.
            free = leaf.varies & mine.isfinite()
            wanted.append(torch.where(free, mine.double(), leaf.fixed))
    rounded = [w.to(n.dtype) for w, n in zip(wanted, tensors(law.native), strict=True)]
    return _refilled(law.native, rounded), _refilled(law.exact, wanted)


def _refilled(nest: Any, replaced: list[torch.Tensor]) -> Any:
    rest = iter(replaced)
    return map_tensors(lambda _: next(rest), nest)


_Parts = list[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]]


def _kept(oracle: Oracle, inputs: list[Any], declared: Stochastic) -> _Parts:
    """Values of kept elements, put together from runs that drop others."""
    assert declared.drop is not None
    fixed = [leaf.clone() for leaf in _floating(_run(oracle.oracle, inputs))]
    elements = max(sum(leaf.numel() for leaf in fixed), 1)
    for _ in range(math.ceil(math.log(_NEVER_KEPT / elements) / math.log(declared.drop))):
        for known, seen in zip(fixed, _floating(_run(oracle.oracle, inputs)), strict=True):
            both = (known != 0) & (seen != 0)
            if bool(((known - seen).abs()[both] > _SAME_VALUE * known.abs()[both]).any()):
                raise ProblemError(
                    f"problem {oracle.name}: it declares mask, but a kept element has not the same value in every run"
                )
            known.copy_(torch.where(known == 0, seen, known))
    keep, spread = 1 - declared.drop, math.sqrt(declared.drop * (1 - declared.drop))
    return [
        (leaf, leaf != 0, torch.full_like(leaf, keep), torch.full_like(leaf, spread))
        for leaf in (leaf.double() for leaf in fixed)
    ]


def _moments(oracle: Oracle, inputs: list[Any], declared: Stochastic) -> _Parts:
    """Mean and deviation of every element over runs."""
    del declared
    parts = []
    runs = [_floating(_run(oracle.native, inputs)) for _ in range(_RUNS)]
    for index, exact in enumerate(_floating(_run(oracle.oracle, inputs))):
        values = torch.stack([run[index].double() for run in runs])
        mean, deviation = values.mean(0), values.std(0)
        varies = (values != values[0]).any(0) & deviation.isfinite()
        parts.append((exact.double(), varies, mean, torch.where(varies, deviation, 1.0)))
    return parts


def _standard(
    output: torch.Tensor,
    declared: Stochastic,
    varies: torch.Tensor,
    centre: torch.Tensor,
    deviation: torch.Tensor,
) -> torch.Tensor:
    """What is drawn, of mean 0 and variance 1 as the reference draws it; 0 where nothing is."""
    drawn = (output != 0).double() if declared.rule == "mask" else output.double()
    return torch.where(varies, (drawn - centre) / deviation, 0.0)


def _floating(nest: Any) -> list[torch.Tensor]:
    return [tensor for tensor in tensors(nest) if tensor.is_floating_point()]


def _run(answer: Callable[[list[Any]], Any], inputs: list[Any]) -> Any:
    """One answer under a seed of its own."""
    with seeded_torch(secrets.randbits(62)):
        return answer(inputs)


class TimedCalls:
    """Timed calls, each on inputs of its own: is the candidate's answer drawn like the reference arm's to the same?"""

    _LEAST = 16
    """Calls before anything is said."""
    _LIMIT = 10.0
    """Standard errors of the paired difference, estimated from at least _LEAST calls."""

    def __init__(self, declared: Stochastic) -> None:
        self._declared = declared
        self._last: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._apart: list[list[torch.Tensor]] = []

    def complaint(self, expected: Sequence[Any], outputs: Sequence[Any]) -> str | None:
        """What of all calls so far is not alike, in words. Both are of the same structure."""
        for index in range(len(_floating(expected[0]))):
            pairs = [
                self._standard(_floating(theirs)[index], _floating(mine)[index])
                for theirs, mine in zip(expected, outputs, strict=True)
            ]
            if len(self._last) == index:
                self._last.append(pairs[-1])
                self._apart.append([])
            reference, candidate = (
                Sample.of([self._last[index][arm], *(pair[arm] for pair in pairs)]) for arm in range(2)
            )
            self._last[index] = pairs[-1]
            self._apart[index] += (candidate.values - reference.values)[1:]
            apart = torch.stack(self._apart[index])
            if len(apart) < self._LEAST:
                continue
            errors = apart.std(0).clamp(min=1e-3 / math.sqrt(reference.elements)) / math.sqrt(len(apart))
            far = apart.mean(0).abs() / errors
            if not bool((far <= self._LIMIT).all()):
                return f"{reference.names[int(far.nan_to_num(math.inf).argmax())]} differs from the reference's"
        return None

    def _standard(self, reference: torch.Tensor, candidate: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Both by the reference's mean and deviation over elements."""
        both = [
            (one != 0).double() if self._declared.rule == "mask" else one.double() for one in (reference, candidate)
        ]
        centre, deviation = both[0].mean(), both[0].std(correction=0)
        return (both[0] - centre) / (deviation or 1.0), (both[1] - centre) / (deviation or 1.0)


def kept_by_both(reference: Any, candidate: Any) -> tuple[Any, Any]:
    """Both with every element of a floating tensor 0 that either has dropped."""
    theirs, mine = tensors(reference), tensors(candidate)
    both = [
        (torch.where(m == 0, 0.0, r), torch.where(r == 0, 0.0, m)) if r.is_floating_point() else (r, m)
        for r, m in zip(theirs, mine, strict=True)
    ]
    return _refilled(reference, [pair[0] for pair in both]), _refilled(candidate, [pair[1] for pair in both])


def judge_values(output: Any, law: Law, precision: str) -> Comparison:
    """One answer by itself: what the law fixes."""
    return compare(output, *_targets(output, law), precision)

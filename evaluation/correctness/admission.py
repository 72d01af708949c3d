"""Would a trivially wrong answer pass? A problem that lets one pass cannot tell a right kernel from a wrong one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from evaluation.correctness.compare import compare
from evaluation.correctness.nested import leaves, map_tensors, tensors
from evaluation.correctness.oracle import Oracle
from evaluation.correctness.tolerance import Yardstick
from problems.inputs import LoadedProblem

_SEED = 20_240_229
_MIN_DRAWS = 3
_TAIL = 0.01
"""Share of rows or columns that a mutant leaves at zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One draw, and all that a wrong answer may be made of."""

    inputs: list[Any]
    native: Any
    oracle: Any
    yardstick: Yardstick
    elsewhere: Any
    """The right answer to another seed's inputs."""
    default_weights: Any
    """The answer with the weights as the constructor left them."""
    half: Any
    """The answer with inputs and weights rounded to fp16, and exact arithmetic after that."""


def admission(loaded: LoadedProblem, precision: str = "fp32") -> list[str]:
    """Names of trivially wrong answers that pass every draw; empty when the problem is fit to judge by.

    Each wrong answer spoils one output and leaves the others right. Draws all cases that the problem covers.
    Raises ProblemError when the reference fails.
    """
    survivors: set[str] | None = None
    cases = loaded.problem.cases
    for index in range(loaded.problem.draws_total(_MIN_DRAWS)):
        case = _case(loaded, precision, _SEED + index, cases[index % len(cases)])
        passed = set()
        for name, answer in _wrong_answers(case, precision):
            # What passed no earlier draw need not be looked at again.
            if survivors is None or name in survivors:
                if compare(answer, case.native, case.oracle, precision, case.yardstick).passed:
                    passed.add(name)
        survivors = passed
    return sorted(survivors or ())


def _case(loaded: LoadedProblem, precision: str, seed: int, value_set: str) -> _Case:
    oracle = Oracle(loaded, seed, precision)
    plain = Oracle(loaded, seed, precision, randomise=False)
    inputs = loaded.draw(seed, value_set=value_set).inputs
    exact = oracle.oracle(inputs)
    return _Case(
        inputs=oracle.at_precision(inputs),
        native=oracle.native(inputs),
        oracle=exact,
        yardstick=oracle.yardstick(inputs, exact),
        elsewhere=oracle.native(loaded.draw(seed + 1_000, value_set=value_set).inputs),
        default_weights=None if _same_state(oracle, plain) else plain.native(inputs),
        half=oracle.perturbed(inputs, lambda tensor: tensor.to(torch.float16).to(tensor.dtype)),
    )


def _wrong_answers(case: _Case, precision: str) -> Iterator[tuple[str, Any]]:
    """Name and answer of every mutant that the outputs' shapes and dtypes allow."""
    outputs = tensors(case.native)
    others = {"the answer to other inputs": case.elsewhere}
    if case.default_weights is not None:
        others["default weights"] = case.default_weights
    if precision in ("fp64", "fp32"):
        others["fp16 arithmetic"] = case.half
    places = [where for where, leaf in leaves(case.native) if isinstance(leaf, torch.Tensor)]
    for index, (where, output) in enumerate(zip(places, outputs, strict=True)):
        wrong = dict(_spoiled(output)) | dict(_passed_through(output, case.inputs))
        wrong |= {name: tensors(other)[index].to(output.dtype) for name, other in others.items()}
        for name, tensor in wrong.items():
            if tensor.shape == output.shape:
                yield f"{name} as {where}", _with_output(case.native, index, tensor)


def _with_output(nest: Any, index: int, tensor: torch.Tensor) -> Any:
    """The same nest with its `index`-th tensor replaced."""
    replaced = tensors(nest)
    replaced[index] = tensor
    rest = iter(replaced)
    return map_tensors(lambda _: next(rest), nest)


def _spoiled(output: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    yield "zeros", torch.zeros_like(output)
    yield "ones", torch.ones_like(output)
    if output.is_floating_point() and output.numel() > 1:
        yield "the mean", torch.full_like(output, float(output.double().mean()))
    for name, axis in (("the last 1 % of rows zeroed", 0), ("the last 1 % of columns zeroed", -1)):
        if output.dim() > (0 if axis == 0 else 1):
            tail = math.ceil(_TAIL * output.shape[axis])
            cut = output.clone()
            cut.narrow(axis, output.shape[axis] - tail, tail).zero_()
            yield name, cut
    if output.numel() > 1:
        yield "elements shifted by one", output.flatten().roll(1).reshape(output.shape)


def _passed_through(output: torch.Tensor, inputs: list[Any]) -> Iterator[tuple[str, torch.Tensor]]:
    for index, tensor in enumerate(tensors(inputs)):
        candidates = {f"input {index}": tensor}
        if tensor.dim():
            candidates[f"the first of input {index}"] = tensor[0]
        for name, candidate in candidates.items():
            if candidate.numel() == output.numel():
                yield name, candidate.reshape(output.shape).to(output.dtype)


def _same_state(one: Oracle, other: Oracle) -> bool:
    theirs = other.state
    return all(torch.equal(value, theirs[name]) for name, value in one.state.items())

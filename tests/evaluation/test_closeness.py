"""The quick look at timed outputs never accepts what the whole comparison would refuse."""

import itertools

import pytest
import torch

from evaluation.correctness.closeness import close, stacked_close
from evaluation.correctness.compare import compare
from evaluation.correctness.tolerance import Yardstick, roundoff

TERMS = 64
SHAPES = [(4096,), (64, 256), (300, 3), (3, 5, 64)]


def outputs(precision, dtype, shape, units, seed):
    """Exact values, a reference one unit away at most, and a candidate `units` away from it, in the same direction."""
    generator = torch.Generator().manual_seed(seed)
    exact = torch.randn(shape, generator=generator, dtype=torch.float64)
    exact *= torch.rand((*shape[:-1], 1), generator=generator, dtype=torch.float64) * 100
    rows = exact.square().mean(-1, keepdim=True).sqrt() * roundoff(precision, dtype, TERMS)
    away = torch.randn(shape, generator=generator, dtype=torch.float64).sign()
    reference = (exact + away * rows * torch.rand(shape, generator=generator, dtype=torch.float64)).to(dtype)
    sizes = torch.rand(shape, generator=generator, dtype=torch.float64) * units
    return exact, reference, (reference.double() + away * rows * sizes).to(dtype)


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("fp16", torch.float16)])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_close_passes(precision, dtype, shape):
    seen = set()
    for seed, units in itertools.product(range(8), (0.0, 0.5, 1.0, 1.4, 1.6, 2.0, 3.0, 8.0)):
        exact, reference, candidate = outputs(precision, dtype, shape, units, seed)
        quick = close(candidate, reference, precision, TERMS)
        assert quick == stacked_close([candidate] * 2, [reference] * 2, precision, TERMS)
        seen.add(quick)
        whole = compare(candidate, reference, exact, precision, Yardstick(terms=TERMS))
        assert whole.passed or not quick, f"{units} units, seed {seed}: {whole.message}"
    assert seen == {True, False}


def test_one_element_far_away_is_not_close():
    exact, reference, candidate = outputs("fp32", torch.float32, (64, 256), 0.0, 1)
    unit = float(exact[3].square().mean().sqrt()) * roundoff("fp32", torch.float32, TERMS)
    for units, near in ((5.5, True), (6.5, False)):
        moved = candidate.double()
        moved[3, 7] += units * unit
        assert close(moved.float(), reference, "fp32", TERMS) is near


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_is_left_to_the_whole_comparison(value):
    _, reference, candidate = outputs("fp32", torch.float32, (64, 256), 0.0, 1)
    candidate[0, 0] = value
    assert not close(candidate, reference, "fp32", TERMS)


def test_rows_of_zeros_are_close_to_themselves_alone():
    zeros = torch.zeros(4, 8)
    assert close(zeros, zeros.clone(), "fp32", TERMS)
    assert not close(zeros + 1e-30, zeros, "fp32", TERMS)

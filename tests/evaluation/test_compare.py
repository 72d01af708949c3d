import math
import subprocess
import sys
from collections import namedtuple

import pytest
import torch

from evaluation.correctness import compare as module
from evaluation.correctness.compare import compare
from evaluation.correctness.figures import ErrorFigures
from evaluation.correctness.nested import structure_fault
from evaluation.correctness.tolerance import Yardstick
from evaluation.serialize import to_plain
from evaluation.verdict import Status


def noisy(exact):
    """An fp32 answer with the rounding of its last step."""
    return exact.float()


def judge(change, exact=None, precision="fp32", yardstick=None):
    exact = torch.randn(40, 33, dtype=torch.float64) if exact is None else exact
    native = noisy(exact)
    return compare(change(native.clone()), native, exact, precision, yardstick)


def put(index, value):
    def change(tensor):
        tensor[index] = value
        return tensor

    return change


@pytest.mark.parametrize(
    "candidate, reference, words",
    [
        ([torch.zeros(2)], (torch.zeros(2),), "type list; the reference has tuple"),
        ((torch.zeros(2),), [torch.zeros(2)], "type tuple"),
        ((torch.zeros(2),) * 3, (torch.zeros(2),) * 2, "3 items"),
        (torch.zeros(2, dtype=torch.float16), torch.zeros(2), "torch.float16"),
        (torch.zeros(2, 1), torch.zeros(2), "[2, 1]"),
        (torch.nn.Parameter(torch.zeros(2)), torch.zeros(2), "must be a torch.Tensor, not Parameter"),
        (None, torch.zeros(2), "NoneType"),
        ((torch.zeros(1), [torch.zeros(1), 3]), (torch.zeros(1), [torch.zeros(1), None]), "output[1][1]"),
        ({"a": torch.zeros(1)}, {"b": torch.zeros(1)}, "keys"),
        (True, 1, "bool"),
    ],
)
def test_structure_is_judged_first(candidate, reference, words):
    result = compare(candidate, reference, reference, "fp32")
    assert result.status is Status.INCORRECT_STRUCTURE
    assert words in result.message
    assert result.figures is None


def test_a_named_tuple_is_a_tuple():
    pair = namedtuple("pair", "a b")(torch.ones(2), torch.ones(2))
    assert structure_fault(pair, tuple(pair)) is None
    assert structure_fault(tuple(pair), pair) is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_must_stand_where_the_reference_has_them(value):
    exact = torch.randn(20, 30, dtype=torch.float64)
    exact[3, 4] = value
    assert judge(lambda x: x, exact).passed
    assert not judge(put((3, 4), 0.0), exact).passed
    assert not judge(put((3, 4), -value if math.isinf(value) else math.inf), exact).passed
    extra = judge(put((5, 6), value), exact)
    assert not extra.passed and "the first at [5, 6]: NaN or infinity" in extra.message
    assert not judge(lambda x: torch.full_like(x, value), exact).passed


def test_where_only_the_reference_overflows_either_answer_is_right():
    exact = torch.tensor([[1e39, 1.0, 2.0]], dtype=torch.float64)
    native = exact.float()
    assert native[0, 0].isinf()
    assert compare(native, native, exact, "fp32").passed
    assert not compare(torch.tensor([[3e38, 1.0, 2.0]]), native, exact, "fp32").passed


def test_one_wrong_element_is_found_and_named():
    result = judge(put((7, 31), 0.123))
    assert result.status is Status.INCORRECT_VALUES
    assert "output: 1 of 1320 elements are wrong, the first at [7, 31]: error" in result.message
    assert "0.123" not in result.message


def test_errors_that_are_small_each_but_too_large_together_fail():
    result = judge(lambda x: x * (1 + 4e-6), yardstick=Yardstick(terms=1024))
    assert not result.passed and "too large together" in result.message
    assert judge(lambda x: x * (1 + 4e-7), yardstick=Yardstick(terms=1024)).passed


def test_a_row_is_judged_by_its_own_size():
    exact = torch.randn(50, 64, dtype=torch.float64)
    exact[::2] *= 1e-9
    assert not judge(lambda x: torch.where(x.abs() < 1e-7, 0.0, x), exact).passed
    tiny = torch.rand(4, 64, dtype=torch.float64) * 1e-30
    assert not judge(torch.zeros_like, tiny).passed


def test_rows_of_zeros_must_stay_zero():
    exact = torch.randn(8, 64, dtype=torch.float64)
    exact[2] = 0
    assert judge(lambda x: x, exact).passed
    assert not judge(put((2, 5), 1e-9), exact).passed
    zeros = torch.zeros(4, 64, dtype=torch.float64)
    assert judge(lambda x: x, zeros).passed
    assert not judge(put((0, 0), 1e-30), zeros).passed


def test_small_fp16_outputs_are_not_below_the_tolerance():
    exact = torch.softmax(torch.randn(2, 100_000, dtype=torch.float64), -1)
    native = exact.half()
    assert compare(native, native, exact, "fp16").passed
    assert not compare(torch.zeros_like(native), native, exact, "fp16").passed


def test_condition_allows_what_cancellation_costs_and_the_reference_its_own_error():
    exact = torch.randn(16, 64, dtype=torch.float64)
    off = exact.float() + 2e-5 * torch.randn(16, 64)
    assert not compare(off, exact.float(), exact, "fp32").passed
    condition = Yardstick(condition=torch.full_like(exact, 100.0))
    assert compare(off, exact.float(), exact, "fp32", condition).passed
    assert compare(off, exact.float() + 2e-5 * torch.randn(16, 64), exact, "fp32").passed


def test_whole_numbers_are_exact_and_follow_reference_or_oracle():
    native, exact = torch.tensor([3, 4, 5]), torch.tensor([3, 4, 6])
    for answer, right in (([3, 4, 5], True), ([3, 4, 6], True), ([3, 4, 7], False), ([2, 4, 5], False)):
        assert compare(torch.tensor(answer), native, exact, "fp32").passed is right
    flags = torch.tensor([True, False])
    assert not compare(~flags, flags, flags, "fp32").passed


def test_plain_numbers_and_complex_tensors():
    assert compare((1, 0.5, "x", None), (1, 0.5, "x", None), (1, 0.5, "x", None), "fp32").passed
    assert not compare((1, 0.6, "x"), (1, 0.5, "x"), (1, 0.5, "x"), "fp32").passed
    assert not compare((1, math.nan), (1, 0.5), (1, 0.5), "fp32").passed
    wave = torch.randn(6, 9, dtype=torch.complex128)
    native = wave.to(torch.complex64)
    assert compare(native, native, wave, "fp32").passed
    assert not compare(native.conj().resolve_conj(), native, wave, "fp32").passed


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (70, 1), (2, 3, 1, 1), (5000,)])
def test_any_shape(shape):
    exact = torch.randn(shape, dtype=torch.float64)
    assert judge(lambda x: x, exact).passed
    if exact.numel():
        assert not judge(lambda x: x + 1, exact).passed


def test_blocks_do_not_change_the_verdict(monkeypatch):
    exact = torch.randn(9, 1000, dtype=torch.float64)
    whole = judge(put((8, 999), 9.0), exact)
    monkeypatch.setitem(module.CHUNK_ELEMENTS, "cpu", 300)
    parts = judge(put((8, 999), 9.0), exact)
    assert parts.message == whole.message
    for name, figure in to_plain(whole.figures).items():
        assert to_plain(parts.figures)[name] == pytest.approx(figure, rel=1e-9)


def test_figures_are_finite_whatever_the_candidate_returns():
    exact = torch.randn(8, 16, dtype=torch.float64)
    exact[1] = 0
    for value in (math.nan, math.inf, 3e38):
        result = judge(lambda x, value=value: torch.full_like(x, value), exact)
        assert not result.passed
        to_plain(result.figures)
    huge = torch.full((2, 9), 1.7e308, dtype=torch.float64)
    for answer in (-huge, huge / 2):
        result = compare(answer, huge, huge, "fp64")
        assert not result.passed
        to_plain(result.figures)
    assert compare(huge, huge, huge, "fp64").passed


def test_figures_merge_by_their_elements():
    one = ErrorFigures(elements=1, max_abs_error=2.0, mean_abs_error=2.0, candidate_rms_error=2.0)
    three = ErrorFigures(elements=3)
    both = one.merge(three)
    assert (both.elements, both.max_abs_error, both.mean_abs_error) == (4, 2.0, 0.5)
    assert both.candidate_rms_error == pytest.approx(1.0)


def test_messages_are_bounded():
    many = tuple(torch.ones(3) for _ in range(50))
    result = compare(tuple(x + 1 for x in many), many, many, "fp32")
    assert "46 more outputs are wrong" in result.message
    assert len(result.message) < 1000


def test_unknown_precision_and_unlike_oracle_are_our_faults():
    with pytest.raises(KeyError):
        compare(torch.ones(1), torch.ones(1), torch.ones(1), "fp8")
    with pytest.raises(ValueError, match="shape"):
        compare(torch.ones(2), torch.ones(2), torch.ones(3), "fp32")


def test_large_outputs_are_compared_in_little_memory():
    """In a process of its own, whose peak is its alone."""
    script = """
import resource, torch
from evaluation.correctness.compare import CHUNK_ELEMENTS, compare
torch.set_num_threads(1)
oracle = torch.rand(1000, 16_384, dtype=torch.float64)
native = oracle.float()
compare(native[:4], native[:4], oracle[:4], "fp32")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert compare(native, native, oracle, "fp32").passed
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
assert grown < 20 * 8 * CHUNK_ELEMENTS["cpu"] < native.nbytes // 3, grown
"""
    subprocess.run([sys.executable, "-c", script], check=True)

"""Every dtype and form of output on small problems: the honest answer passes, each slight change of it fails.

An entry holds the right answer as the reference at its precision gives it, and in float64; mutants are off by little.
"""

import math

import pytest
import torch

from evaluation.correctness.compare import compare
from evaluation.correctness.tolerance import Yardstick
from evaluation.verdict import Solution, Stage, Status
from evaluation.worker import codec
from evaluation.worker.buffers import Region, payload_bytes
from problems.library import read_problem

FLOATS = {"fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
SHORT = Yardstick(terms=1)


def generator():
    return torch.Generator().manual_seed(5)


def carried(nest):
    """As it comes from a worker: through the codec, which must change nothing."""
    room = torch.zeros(payload_bytes(nest) + 64, dtype=torch.uint8)
    region = Region(room, 0, len(room))
    return codec.decode(codec.encode(nest, region), region)


def compared(candidate, native, exact, precision="fp32"):
    return compare(carried(candidate), native, exact, precision, SHORT)


@pytest.fixture(params=FLOATS)
def float_case(request):
    precision = request.param
    exact = torch.randn(31, 17, dtype=torch.float64, generator=generator())
    return precision, exact.to(FLOATS[precision]), exact if precision != "fp64" else exact.clone()


def test_an_honest_float_passes_and_one_off_by_a_hundred_ulps_fails(float_case):
    precision, native, exact = float_case
    ulp = torch.finfo(native.dtype).eps
    assert compared(native, native, exact, precision).passed
    assert compared((exact * (1 + ulp / 4)).to(native.dtype), native, exact, precision).passed
    assert not compared((exact * (1 + 100 * ulp)).to(native.dtype), native, exact, precision).passed
    one = native.clone()
    one[30, 16] += 100 * ulp * exact.abs().max()
    assert not compared(one, native, exact, precision).passed


@pytest.mark.parametrize("other", [*FLOATS.values(), torch.int64, torch.complex64])
def test_another_dtype_with_the_same_values_fails(float_case, other):
    precision, native, exact = float_case
    if other is not native.dtype:
        whole, target = native.round(), exact.round()
        assert compared(whole.to(other), whole, target, precision).status is Status.INCORRECT_STRUCTURE


def test_nan_and_infinities_are_asked_for_where_the_reference_has_them(float_case):
    precision, native, exact = float_case
    for index, value in enumerate((math.nan, math.inf, -math.inf)):
        native[index, 0] = exact[index, 0] = value
    assert compared(native, native, exact, precision).passed
    for place, value in (
        ((0, 0), 0.0),
        ((1, 0), -math.inf),
        ((2, 0), math.nan),
        ((9, 9), math.nan),
        ((9, 9), math.inf),
    ):
        wrong = native.clone()
        wrong[place] = value
        assert not compared(wrong, native, exact, precision).passed, (place, value)


@pytest.mark.parametrize("shape", [(), (0,), (4, 0, 3), (1,), (1, 1, 1)])
@pytest.mark.parametrize("dtype", [*FLOATS.values(), torch.int32, torch.bool, torch.complex64])
def test_no_dimensions_and_no_elements(shape, dtype):
    precision = next((name for name, known in FLOATS.items() if known is dtype), "fp32")
    native = (torch.rand(shape, generator=generator()) + 0.5).to(dtype)
    exact = native.to(torch.complex128) if dtype.is_complex else native.double() if dtype.is_floating_point else native
    assert compared(native, native, exact, precision).passed
    assert compared(native.unsqueeze(0), native, exact, precision).status is Status.INCORRECT_STRUCTURE
    if native.numel():
        wrong = ~native if dtype is torch.bool else native + 1
        assert not compared(wrong, native, exact, precision).passed


WHOLE = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


@pytest.mark.parametrize("dtype", WHOLE)
def test_a_whole_number_that_is_off_by_one_fails(dtype):
    native = torch.randint(0, 100, (40, 9), generator=generator()).to(dtype)
    assert compared(native, native, native).passed
    for place in ((0, 0), (39, 8)):
        wrong = native.clone()
        wrong[place] += 1
        assert not compared(wrong, native, native).passed


def test_large_whole_numbers_are_not_rounded():
    """Past 2**53, where float64 would take neighbours for equal."""
    native = torch.tensor([2**53, 2**62, -(2**63)])
    assert compared(native, native, native).passed
    assert not compared(native + torch.tensor([1, 0, 0]), native, native).passed
    assert not compared(native + torch.tensor([0, 0, 1]), native, native).passed


def test_one_flipped_bool_fails():
    native = torch.rand(40, 9, generator=generator()) < 0.5
    assert compared(native, native, native).passed
    wrong = native.clone()
    wrong[39, 8] = ~wrong[39, 8]
    assert not compared(wrong, native, native).passed
    assert compared(native.to(torch.uint8), native, native).status is Status.INCORRECT_STRUCTURE


@pytest.mark.parametrize("dtype, wide", [(torch.complex64, "fp32"), (torch.complex128, "fp64")])
def test_a_complex_number_is_right_in_both_parts(dtype, wide):
    exact = torch.randn(12, 20, dtype=torch.complex128, generator=generator())
    native, ulp = exact.to(dtype), torch.finfo(dtype).eps
    assert compared(native, native, exact, wide).passed
    for wrong in (native.conj(), native * (1 + 100j * ulp), native.real.to(dtype), native * -1j):
        assert not compared(wrong, native, exact, wide).passed


def nests():
    """Structures of a float, an int and a bool output, and what may not take their place."""
    x = torch.randn(6, 8, dtype=torch.float64, generator=generator())
    y, index, flag = x.float() * 2, x.argmax(-1), x > 0
    exact = x * 2
    yield (
        (y, index),
        (exact, index),
        [(index, y), [y, index], (y,), (y, index, flag), (y, index + 1), (y * 1.001, index)],
    )
    yield (
        {"values": y, "more": {"index": index, "flag": flag}},
        {"values": exact, "more": {"index": index, "flag": flag}},
        [
            {"more": {"index": index, "flag": flag}, "values": y},
            {"values": y, "more": {"index": index}},
            {"values": y, "more": {"index": index, "flag": ~flag}},
            {"values": y, "more": {"index": flag, "flag": index}},
            {"values": y, "more": (index, flag)},
        ],
    )
    yield (
        [y, (flag, [index, y + 1]), None, 3],
        [exact, (flag, [index, exact + 1]), None, 3],
        [
            [y, (flag, [index, y]), None, 3],
            [y + 1, (flag, [index, y]), None, 3],
            [y, (flag, [index, y + 1]), None, 4],
            [y, (flag, [index, y + 1]), None, 3.0],
            [y, (flag, (index, y + 1)), None, 3],
            [y, (flag, [index, y + 1]), y, 3],
        ],
    )
    same = (y, y + 1e-3)
    yield same, (exact, exact + 1e-3), [(same[1], same[0]), (same[0], same[0])]


@pytest.mark.parametrize("native, exact, mutants", list(nests()))
def test_nested_outputs_are_judged_leaf_by_leaf_in_order(native, exact, mutants):
    assert compared(native, native, exact).passed
    for mutant in mutants:
        assert not compared(mutant, native, exact).passed, mutant


MIXED = """
import torch
import torch.nn as nn


class {name}(nn.Module):
    def forward(self, x):
        top, place = x.max(-1)
        return {{
            "pair": (top, place.to(torch.int32)),
            "list": [x > 0, torch.complex(top, -top)],
            "one": x.sum(),
            "none": x[:0],
            "half": {half},
            "wide": x.double() * 3,
            "nan": torch.where(x > 1, torch.nan, x),
        }}
"""
INPUTS = """

def get_inputs():
    return [torch.randn(24, 40)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    "half, status",
    [("x.half()", Status.PASSED), ("x.bfloat16().half()", Status.INCORRECT_VALUES), ("x", Status.INCORRECT_STRUCTURE)],
)
def test_a_whole_evaluation_carries_them_all(judge, tmp_path, half, status):
    path = tmp_path / "1_mixed.py"
    path.write_text(MIXED.format(name="Model", half="x.half()") + INPUTS)
    solution = Solution(source=MIXED.format(name="ModelNew", half=half))
    found = judge.evaluate(read_problem(path), solution, Stage.TIMING)
    assert found.status is status, found.message

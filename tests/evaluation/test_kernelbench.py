"""KernelBench's rule, whatever the dtype: what passes there is reported as passing there, and nothing else."""

import math

import pytest
import torch

from evaluation.correctness.kernelbench import TOLERANCE, kernelbench_verdict

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@pytest.mark.parametrize("precision", TOLERANCE)
def test_it_is_allclose_with_the_tolerance_of_the_precision_asked_for(precision):
    native, tolerance = torch.zeros(64, dtype=DTYPES[precision]), TOLERANCE[precision]
    assert kernelbench_verdict(native + 0.9 * tolerance, native, precision)
    assert not kernelbench_verdict(native + 1.2 * tolerance, native, precision)
    wide = torch.full((64,), 1000.0)
    assert kernelbench_verdict(wide * (1 + 0.9 * tolerance), wide, precision)
    assert not kernelbench_verdict(wide * (1 + 1.2 * tolerance), wide, precision)


def test_the_relative_part_refers_to_the_candidate():
    native = torch.tensor([1.0])
    assert kernelbench_verdict(native * (1 + 1.0101e-2), native, "bf16") == torch.allclose(
        native, native * (1 + 1.0101e-2), atol=1e-2, rtol=1e-2
    )
    assert kernelbench_verdict(torch.tensor([2.04]), torch.tensor([2.0]), "fp16") is False
    assert kernelbench_verdict(torch.tensor([100.0]), torch.tensor([101.005]), "fp16")
    assert not kernelbench_verdict(torch.tensor([101.005 - 2.03]), torch.tensor([101.005]), "fp16")


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64, torch.float64])
def test_dtypes_beside_the_precision_are_compared_by_the_same_numbers(dtype):
    native = torch.ones(300, dtype=dtype)
    assert kernelbench_verdict(native.clone(), native, "fp32")
    wrong = native.clone()
    wrong[7] = 0
    assert not kernelbench_verdict(wrong, native, "fp32")
    if dtype is torch.int64:
        # An index that is off by one among large ones passes there.
        assert kernelbench_verdict(native * 100_001, native * 100_000, "fp32")


def test_what_raises_there_fails():
    one = torch.ones(3)
    assert not kernelbench_verdict(one.double(), one, "fp32")
    assert not kernelbench_verdict((one, one), (one, one), "fp32")
    assert not kernelbench_verdict({"y": one}, {"y": one}, "fp32")
    assert not kernelbench_verdict(1.0, 1.0, "fp32")
    assert not kernelbench_verdict(one.view(3, 1), one, "fp32")
    small = one.to(torch.float8_e4m3fn)
    assert not kernelbench_verdict(small, small, "fp32")


def test_nan_equals_nothing_and_an_infinity_itself():
    for value, passed in ((math.nan, False), (math.inf, True)):
        native = torch.full((4,), value)
        assert kernelbench_verdict(native.clone(), native, "fp32") is passed
    assert kernelbench_verdict(torch.empty(0), torch.empty(0), "fp32")


@pytest.mark.parametrize("precision", ["fp64", "tf32"])
def test_it_says_nothing_where_kernelbench_has_no_such_precision(precision):
    assert kernelbench_verdict(torch.ones(3), torch.ones(3), precision) is None


def test_large_outputs_are_compared_in_blocks_with_one_answer():
    native = torch.rand(700, 601)
    assert kernelbench_verdict(native + 5e-5, native, "fp32")
    native[699, 600] += 1
    assert not kernelbench_verdict(native - (native > 1) * 0.5, native, "fp32")

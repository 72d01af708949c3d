"""The measurements behind a roofline, on the first CUDA device, in a few seconds. Whoever calls holds the device.

A figure is the best of the medians of ROUNDS rounds of calls, timed by CUDA events between the calls, after as many
calls as warm the clocks up. Inputs are random: matrices of zeros draw less power and come out faster than real ones.

DRAM: torch's copy of a buffer of up to 4 GiB, and reading it by `bandwidth.cu`; both far larger than the L2 cache.
L2: reading a third of it over and over past the L1 cache; more would not fit where each half of the cache keeps copies.
Products: torch's, of square matrices with the second one transposed, the order that tensor cores read fastest.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import statistics
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from evaluation.correctness.surroundings import strict_fp32
from evaluation.errors import EvaluatorError, JudgeLost
from evaluation.profile.rates import DRAM_COPY, DRAM_READ, L2_READ, Rate

SOURCE = Path(__file__).with_name("bandwidth.cu")

ROUNDS = 5
ROUND_S = 0.015
WARM_UP_S = 0.03
_LEAST_CALLS, _MOST_CALLS = 3, 100
_PROBE_CALLS = 5
_DRAM_BYTES = 4 * 2**30
_DRAM_MUCH = 8
"""Times the L2 cache, at least."""
_L2_CALL_BYTES = 4 * 10**9
"""Read by one call, so that it takes about a millisecond."""
_MATRIX_SIZES = (8192, 4096, 2048)
_LONGEST_CALL_MS = 8.0
"""Products are as large as takes no longer."""

Call = Callable[[], object]

_DTYPES = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "tf32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8": torch.float8_e4m3fn,
    "int8": torch.int8,
}
_NEEDS = {"tf32": (8, 0), "bf16": (8, 0), "fp8": (8, 9), "int8": (7, 5)}
"""Compute capability of the first tensor cores that know the precision."""


@dataclass(slots=True)
class Figures:
    """What was measured."""

    bandwidths: dict[str, Rate] = field(default_factory=dict)
    operations: dict[str, Rate] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)


def measure(library: Path) -> Figures:
    """All of it; `library` is what `SOURCE` was built to. Leaves torch's random numbers alone.

    Raises EvaluatorError where too little memory is free, JudgeLost where the device fails.
    """
    found = Figures()
    try:
        torch.cuda.empty_cache()
        _memory(_Reader(library), found)
        torch.cuda.empty_cache()
        for precision in _DTYPES:
            _products(precision, found)
        torch.cuda.synchronize()
    except torch.OutOfMemoryError as error:
        raise EvaluatorError(f"too little memory is free on the device to measure its roofline: {error}") from error
    except RuntimeError as error:
        raise JudgeLost(f"the device failed while its roofline was measured: {error}") from error
    torch.cuda.empty_cache()
    return found


def _memory(reader: _Reader, found: Figures) -> None:
    free, _ = torch.cuda.mem_get_info()
    l2_bytes = torch.cuda.get_device_properties("cuda").L2_cache_size
    size = min(_DRAM_BYTES, free // 6) // 2**20 * 2**20
    if size < max(_DRAM_MUCH * l2_bytes, 2**20):
        raise EvaluatorError(f"{free / 2**30:.1f} GiB free on the device are too little to measure its bandwidth")
    source = torch.empty(size // 8, dtype=torch.int64, device="cuda").random_(generator=_generator())
    target = torch.empty_like(source)
    found.bandwidths[DRAM_COPY] = _rate(lambda: target.copy_(source), 2 * size, size)
    found.bandwidths[DRAM_READ] = _rate(lambda: reader.read(source, 1), size, size)
    if l2_bytes <= 0:
        found.absent[L2_READ] = "the driver does not tell the size of the L2 cache"
        return
    part_bytes = l2_bytes // 3 // 16 * 16
    part, passes = source[: part_bytes // 8], math.ceil(_L2_CALL_BYTES / part_bytes)
    found.bandwidths[L2_READ] = _rate(lambda: reader.read(part, passes), passes * part_bytes, part_bytes)


def _products(precision: str, found: Figures) -> None:
    needed = _NEEDS.get(precision, (0, 0))
    if torch.cuda.get_device_capability() < needed:
        found.absent[precision] = f"tensor cores know it from compute capability {needed[0]}.{needed[1]} on"
        return
    with _fp32_products(tf32=precision == "tf32"):
        try:
            size = _size(precision)
            found.operations[precision] = _rate(_product(precision, size), 2 * size**3, size)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            # What a library does not know on this device, it says by one.
            found.absent[precision] = f"torch refused: {str(error).splitlines()[0][:200]}"


def _size(precision: str) -> int:
    """The largest that memory and time allow, by what the smallest one takes."""
    free, _ = torch.cuda.mem_get_info()
    smallest = _MATRIX_SIZES[-1]
    call = _product(precision, smallest)
    call()
    call_ms = min(_spans_ms(call, _PROBE_CALLS))
    room = [size for size in _MATRIX_SIZES if 4 * size**2 * max(_DTYPES[precision].itemsize, 4) < free / 2]
    quick = [size for size in room if call_ms * (size / smallest) ** 3 <= _LONGEST_CALL_MS]
    return max(quick, default=smallest)


def _product(precision: str, size: int) -> Call:
    dtype = _DTYPES[precision]
    left, right = _matrix(dtype, size, 1), _matrix(dtype, size, 2).t()
    if precision == "int8":
        return lambda: torch._int_mm(left, right)
    if precision == "fp8":
        one = torch.ones(1, device="cuda")
        # The private name, as torch offers no other one for tensors of fp8.
        return lambda: torch._scaled_mm(
            left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
        )
    out = torch.empty(size, size, dtype=dtype, device="cuda")
    return lambda: torch.mm(left, right, out=out)


def _matrix(dtype: torch.dtype, size: int, seed: int) -> torch.Tensor:
    generator = _generator(seed)
    if dtype is torch.int8:
        return torch.randint(-127, 128, (size, size), dtype=dtype, device="cuda", generator=generator)
    drawn = torch.float64 if dtype is torch.float64 else torch.float32
    return torch.randn(size, size, dtype=drawn, device="cuda", generator=generator).to(dtype)


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator("cuda").manual_seed(seed)


@contextmanager
def _fp32_products(*, tf32: bool) -> Iterator[None]:
    """Whether products of fp32 matrices are made in TF32; what held before holds afterwards."""
    with strict_fp32():
        if tf32:
            matmul = torch.backends.cuda.matmul
            with warnings.catch_warnings():
                # Some versions say that the older switch is on its way out; operators refuse where the two disagree.
                warnings.simplefilter("ignore")
                matmul.allow_tf32 = True
            matmul.fp32_precision = "tf32"
        yield


class _Reader:
    """`bandwidth.cu`, on torch's stream."""

    def __init__(self, library: Path) -> None:
        loaded = ctypes.CDLL(str(library))
        self._failure = loaded.ks_read_error
        self._failure.restype = ctypes.c_char_p
        self._read = loaded.ks_read
        self._read.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        self._sink = torch.zeros(1, dtype=torch.int32, device="cuda")

    def read(self, data: torch.Tensor, passes: int) -> None:
        """Queue reading all bytes of `data`, whose number is a multiple of 16, `passes` times."""
        stream = torch.cuda.current_stream().cuda_stream
        if self._read(data.data_ptr(), data.numel() * data.itemsize, passes, self._sink.data_ptr(), stream):
            raise EvaluatorError(f"the device's memory could not be read: {self._failure().decode(errors='replace')}")


def _rate(call: Call, work: int, size: int) -> Rate:
    """Of a call that does `work` bytes or operations."""
    call()  # loads what it needs
    call_ms = min(_spans_ms(call, _LEAST_CALLS))
    _spans_ms(call, _calls(WARM_UP_S, call_ms))
    count = _calls(ROUND_S, call_ms)
    medians_ms = [statistics.median(_spans_ms(call, count)) for _ in range(ROUNDS)]
    best_ms = min(medians_ms)
    return Rate(
        per_s=work / best_ms * 1e3,
        spread=max(medians_ms) / best_ms - 1,
        rounds=ROUNDS,
        calls=ROUNDS * count,
        size=size,
    )


def _calls(seconds: float, call_ms: float) -> int:
    return max(_LEAST_CALLS, min(_MOST_CALLS, math.ceil(seconds * 1e3 / call_ms)))


def _spans_ms(call: Call, count: int) -> list[float]:
    """Of `count` calls in a row, each from the end of the one before."""
    marks: list[Any] = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    marks[0].record()
    for mark in marks[1:]:
        call()
        mark.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) for before, after in itertools.pairwise(marks)]

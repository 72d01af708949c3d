"""The harness around a call on the device (`harness.cu`): built once by the judge, loaded before any candidate."""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import subprocess
import tempfile
from pathlib import Path

from evaluation.building.toolchain import Toolchain
from evaluation.device.presence import require
from evaluation.errors import EvaluatorError

SLOTS = 64
"""Spans that are kept until they are read."""
GATE_LIMIT_MS = 20.0
"""How long a gate stays closed when the judge does not open it: for calls that wait for the device themselves."""
_SOURCE = Path(__file__).with_name("harness.cu")
_ARCHITECTURES = ("80", "90", "100", "120")


class HarnessError(RuntimeError):
    """CUDA refused something; the text is its own."""


def build(cache_dir: Path, source: Path = _SOURCE) -> Path:
    """The library of one of our sources, made by nvcc unless `cache_dir` has it.

    Raises EvaluatorError where it cannot be built or used.
    """
    require(["cuda"])
    toolchain = Toolchain.find()
    key = hashlib.sha256(toolchain.fingerprint.encode() + source.read_bytes()).hexdigest()[:24]
    library = cache_dir / "harness" / f"{key}.so"
    if library.exists():
        return library
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder) / "harness.so"
        known = subprocess.run(
            [str(toolchain.nvcc), "--list-gpu-arch"], capture_output=True, text=True, check=False
        ).stdout
        architectures = [a for a in _ARCHITECTURES if f"compute_{a}" in known.split()]
        targets = [f"-gencode=arch=compute_{a},code=[sm_{a},compute_{a}]" for a in architectures]
        flags = ["-shared", "-Xcompiler", "-fPIC", "-O2", "-std=c++17", "-cudart", "static", *targets]
        done = subprocess.run(
            [str(toolchain.nvcc), *flags, "-o", str(made), str(source)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            said = (done.stderr or done.stdout)[:500]
            raise EvaluatorError(f"nvcc could not build the evaluator's {source.name}: {said}")
        made.replace(library)
    return library


class Harness:
    """One process's use of the library. Every method raises HarnessError when CUDA fails."""

    def __init__(self, library: ctypes.CDLL) -> None:
        """Whatever is called later is resolved here."""
        self._failure = library.ks_error
        self._failure.restype = ctypes.c_char_p
        self._open, self._flush, self._wait = library.ks_open, library.ks_flush, library.ks_wait
        self._begin, self._end, self._mark = library.ks_begin, library.ks_end, library.ks_mark
        self._nothing, self._spans = library.ks_nothing, library.ks_spans
        self._open.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_double]
        self._begin.argtypes = [ctypes.c_uint32, ctypes.c_int]
        self._mark.argtypes = [ctypes.c_uint32]
        self._times = (ctypes.c_float * SLOTS)(), (ctypes.c_float * SLOTS)()

    @classmethod
    def load(cls, path: Path) -> Harness:
        """Without touching the device, so that it may be done before a fork."""
        return cls(ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL))

    def open(self, page: mmap.mmap) -> None:
        """Make the context, the buffers that are swept and the events; gates listen to `page` (see `page.py`)."""
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        self._check(self._open(address, len(page), GATE_LIMIT_MS))

    def begin(self, ticket: int, slot: int) -> None:
        """Empty the L2 cache, close the gate and begin a span."""
        self._check(self._begin(ticket, slot))

    def end(self, slot: int) -> None:
        """End the span; what is queued next in the default stream waits for every stream."""
        self._check(self._end(slot))

    def mark(self, ticket: int) -> None:
        """Have the device write into the page when it has come this far."""
        self._check(self._mark(ticket))

    def nothing(self) -> None:
        """Queue an empty kernel."""
        self._check(self._nothing())

    def flush(self) -> None:
        """Queue what empties the L2 cache."""
        self._check(self._flush())

    def wait(self) -> None:
        """Until the device has nothing left to do in this context."""
        self._check(self._wait())

    def spans_us(self, count: int) -> list[tuple[float, float]]:
        """Of the first `count` slots: microseconds until the default stream, and until every stream was done."""
        stream_ms, all_ms = self._times
        self._check(self._spans(count, stream_ms, all_ms))
        return [(stream_ms[slot] * 1e3, all_ms[slot] * 1e3) for slot in range(count)]

    def _check(self, code: int) -> None:
        if code:
            raise HarnessError(f"CUDA error: {self._failure().decode(errors='replace')}")

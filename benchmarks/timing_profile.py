"""Calls of one kernel, each after a flush of the L2 cache, for a profiler to time. Needs torch and a GPU, nothing else.

    python benchmarks/timing_profile.py LIBRARY.so SIZES REPEATS [FOLDER]

SIZES is `n:folds,n:folds,...`. The library exports `launch_mean8` (timing_cases.LIBRARY). With FOLDER,
torch.profiler writes the durations that CUPTI gives to FOLDER/n-folds.json; without, others may watch, such as ncu.
Each size has one call to check and WARM_UPS more before the REPEATS that count.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

WARM_UPS = 10


def flusher() -> Callable[[], None]:
    """Writes 3 times the L2 cache, then reads as much of other memory: no dirty line is left to be written back."""
    count = 3 * torch.cuda.get_device_properties(0).L2_cache_size // 4
    dirty, clean = (torch.zeros(count, device="cuda") for _ in range(2))

    def flush() -> None:
        dirty.fill_(1.0)
        clean.sum()

    return flush


def caller(library: Path, n: int, folds: int) -> Callable[[], None]:
    """One launch of the kernel on tensors of its own."""
    launch = ctypes.CDLL(str(library)).launch_mean8
    launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p]
    x, out = torch.randn(8, n, device="cuda"), torch.empty(n, device="cuda")
    stream = torch.cuda.current_stream().cuda_stream

    def call() -> None:
        error = launch(x.data_ptr(), out.data_ptr(), n, folds, stream)
        if error:
            raise RuntimeError(f"mean8_kernel was not launched: CUDA error {error}")

    call()
    expected = x.view(8, folds, n // folds).mean(dim=(0, 1)).repeat(folds)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
    return call


def main() -> None:
    """Warm up each size, then make the calls."""
    library, sizes, repeats = Path(sys.argv[1]), sys.argv[2].split(","), int(sys.argv[3])
    folder = Path(sys.argv[4]) if len(sys.argv) > 4 else None
    flush = flusher()
    for size in sizes:
        call = caller(library, *map(int, size.split(":")))
        for _ in range(WARM_UPS):
            flush()
            call()
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) if folder else nullcontext() as profiler:
            for _ in range(repeats):
                flush()
                call()
                torch.cuda.synchronize()
        if folder and profiler:
            profiler.export_chrome_trace(str(folder / f"{size.replace(':', '-')}.json"))


if __name__ == "__main__":
    main()

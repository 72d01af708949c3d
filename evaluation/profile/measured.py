"""What a worker does for a profile, in the candidate's process: untrusted, and no part of any verdict."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch._C._autograd import DeviceType

from evaluation.correctness.nested import map_tensors

COUNTED, TRACED, PEAK, LOOP = "counted", "traced", "peak", "loop"
_WARM_UPS = 2
_UNWATCHED_S, _MOST_AT_ONCE = 0.02, 1000

Call = Callable[[], Any]


def answered(order: dict[str, Any], model: Any) -> Any:
    """What `measure` finds of the calls that evaluation.profile.arm orders: on copies of the inputs on the device."""
    inputs = map_tensors(lambda tensor: tensor.to("cuda"), order["inputs"])
    with torch.no_grad():
        return measure(order["mode"], lambda: model(*inputs), order["seconds"])


def measure(mode: str, call: Call, seconds: float) -> Any:
    """Warm up, so that libraries have their workspaces and what compiles itself has, then measure one way.

    COUNTED: one call between the marks that ncu waits for; None. TRACED: [name, microseconds] of each kernel of one
    call. PEAK: bytes of torch's allocator that one call adds at most, its output included. LOOP: seconds per call of
    calls that follow each other for at least `seconds`.
    """
    for _ in range(_WARM_UPS):
        call()
    torch.cuda.synchronize()
    if mode == PEAK:
        return _peak(call)
    if mode == TRACED:
        return _traced(call)
    if mode == LOOP:
        return _looped(call, seconds)
    torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
    call()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]
    return None


def _peak(call: Call) -> int:
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _traced(call: Call) -> list[list[Any]]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        call()
        torch.cuda.synchronize()
    return kernels_of(profiler.events())


def kernels_of(events: Any) -> list[list[Any]]:
    """Of a trace, what ran on the device and is a kernel: no copy, no fill, and no operator of the host."""
    return [
        [event.name[:200], float(event.time_range.elapsed_us())]
        for event in events
        if event.device_type == DeviceType.CUDA and not event.name.startswith(("Memcpy", "Memset"))
    ]


def _looped(call: Call, seconds: float) -> float:
    """The device stays busy: it is waited for only now and then."""
    calls, at_once, per_call_s, started = 0, 1, 0.0, time.monotonic()
    while time.monotonic() - started < seconds:
        for _ in range(at_once):
            call()
        torch.cuda.synchronize()
        calls += at_once
        per_call_s = (time.monotonic() - started) / calls
        at_once = min(max(int(_UNWATCHED_S / per_call_s), 1), _MOST_AT_ONCE)
    return per_call_s

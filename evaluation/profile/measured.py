"""What a worker does for a profile, in the candidate's process: untrusted, and no part of any verdict."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import torch
from torch._C._autograd import DeviceType

from evaluation.correctness.nested import map_tensors

COUNTED, TRACED, CAPTURED, PEAK, LOOP = "counted", "traced", "captured", "peak", "loop"
_WARM_UPS = 2
_KERNEL, _CHILD_GRAPH = 0, 4
"""CUgraphNodeType."""
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
    call. CAPTURED: how many kernels a call queues, -1 where it cannot be captured. PEAK: bytes of torch's allocator
    that one call adds at most, its output included. LOOP: seconds per call of calls that follow each other for at least
    `seconds`.
    """
    for _ in range(_WARM_UPS):
        call()
    torch.cuda.synchronize()
    if mode == PEAK:
        return _peak(call)
    if mode == TRACED:
        return _traced(call)
    if mode == CAPTURED:
        return _captured(call)
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


def _captured(call: Call) -> int:
    """Kernels in the CUDA graph of a call; starting a profiler for that takes seconds.

    One that waits for the device, or copies from pageable memory, cannot be captured.
    """
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    try:
        with torch.cuda.graph(graph):
            call()
    except RuntimeError:
        return -1
    return _kernel_nodes(ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(graph.raw_cuda_graph()))


def _kernel_nodes(driver: Any, graph: ctypes.c_void_p) -> int:
    count = ctypes.c_size_t()
    _require(driver.cuGraphGetNodes(graph, None, ctypes.byref(count)))
    nodes = (ctypes.c_void_p * count.value)()
    _require(driver.cuGraphGetNodes(graph, nodes, ctypes.byref(count)))
    kernels = 0
    for node in map(ctypes.c_void_p, nodes):
        kind, child = ctypes.c_int(), ctypes.c_void_p()
        _require(driver.cuGraphNodeGetType(node, ctypes.byref(kind)))
        if kind.value == _CHILD_GRAPH:
            _require(driver.cuGraphChildGraphNodeGetGraph(node, ctypes.byref(child)))
            kernels += _kernel_nodes(driver, child)
        kernels += kind.value == _KERNEL
    return kernels


def _require(code: int) -> None:
    if code:
        raise RuntimeError(f"the nodes of a CUDA graph cannot be read: CUDA error {code}")


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

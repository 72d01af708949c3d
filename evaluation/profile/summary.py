"""From the kernels of one forward to the figures that a run page shows; formulas are in evaluation/profile/metrics.py.

SOL score: sum(t * max(dram_percent, compute_percent)) / sum(t) / 100, 0 to 1: how near the busier of memory and SM is
to what the device can do, each kernel weighed by its duration t.

Bottleneck, the first that fits: `memory` or `compute` where that mean is at least 60 % (the larger of both); `launch`
where kernels take less than 5 us on average, as long as a launch takes; `latency` else: neither is busy, so warps wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from evaluation.profile import metrics as names
from evaluation.profile.ncu import Kernel
from evaluation.verdict import Profile, ProfiledKernel

BUSY_PERCENT = 60.0
LAUNCH_US = 5.0


class Peaks(Protocol):
    """What a device can do at most; evaluation.profile.specs has it by device."""

    @property
    def dram_bandwidth_bytes_s(self) -> float:
        """Of its memory."""
        ...

    @property
    def peak_flops(self) -> Mapping[str, float]:
        """Dense, per second; by fp64, fp32, tf32, fp16, bf16, fp8, int8."""
        ...


def summarise(kernels: Sequence[Kernel], peaks: Peaks | None) -> Profile:
    """All that counters tell. Raises ValueError for no kernels, or for one without a duration."""
    if not kernels or not all(kernel.values.get(names.TIME, 0) > 0 for kernel in kernels):
        raise ValueError("a profile needs kernels, each with its duration")
    found = _Figures(kernels)
    found.times()
    found.memory()
    found.operations(peaks)
    found.launch()
    found.stalls()
    found.bottleneck()
    return Profile(metrics=found.metrics, absent=found.absent, words=found.words, kernels=list(map(_row, kernels)))


def bottleneck(dram_percent: float, compute_percent: float, kernel_us: float) -> str:
    """`memory`, `compute`, `launch` or `latency`, by the rule above; `kernel_us` is the mean duration."""
    if max(dram_percent, compute_percent) >= BUSY_PERCENT:
        return "memory" if dram_percent >= compute_percent else "compute"
    return "launch" if kernel_us < LAUNCH_US else "latency"


def _row(kernel: Kernel) -> ProfiledKernel:
    values = kernel.values
    way = _possible(names.DRAM, [kernel])
    try:
        flops: float | None = sum(_flops([kernel]).values())
    except _NotCounted:
        flops = None
    return ProfiledKernel(
        name=kernel.name,
        device_time_us=values[names.TIME] / 1e3,
        dram_bytes=sum(values[name] for name in way) if way else None,
        dram_percent=values.get(names.DRAM_PERCENT),
        compute_percent=values.get(names.COMPUTE_PERCENT),
        flops=flops,
    )


def _possible(ways: Sequence[tuple[str, ...]], kernels: Sequence[Kernel]) -> tuple[str, ...] | None:
    """The first list of counters that all these kernels have."""
    return next((way for way in ways if all(name in kernel.values for kernel in kernels for name in way)), None)


class _NotCounted(Exception):
    """Operations are not known; the text says why."""


def _flops(kernels: Sequence[Kernel]) -> dict[str, float]:
    """Operations by precision, of ordinary and tensor cores. Raises _NotCounted."""
    counters = [name for factors in names.SCALAR.values() for name in factors]
    missing = [name for name in counters if not all(name in kernel.values for kernel in kernels)]
    if missing:
        raise _NotCounted(f"ncu gave no {missing[0]} on this device")
    ways = {precision: _possible(ways, kernels) for precision, ways in names.TENSOR.items()}
    counted = ((precision, way) for precision, way in ways.items() if way is not None)
    tensor = {precision: sum(kernel.values[name] for kernel in kernels for name in way) for precision, way in counted}
    busy_percent = max(kernel.values.get(names.PIPES["tensor"], 0.0) for kernel in kernels)
    if busy_percent and not any(tensor.values()):
        text = f"tensor cores were up to {busy_percent:.1f} % busy, and none of their operations was counted"
        lacking = [names.TENSOR[precision][0][0] for precision, way in ways.items() if not way]
        raise _NotCounted(f"{text}: ncu gave no {lacking[0]} on this device" if lacking else text)
    flops = dict.fromkeys(("fp64", "fp32", "tf32", "fp16", "bf16", "fp8"), 0.0) | tensor
    for precision, factors in names.SCALAR.items():
        operations = sum(factor * kernel.values[name] for kernel in kernels for name, factor in factors.items())
        flops["fp16" if precision == "half" else precision] += operations
    return flops


class _Figures:
    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self._kernels = kernels
        self._longest = max(kernels, key=lambda kernel: kernel.values[names.TIME]).values
        self._seconds = sum(kernel.values[names.TIME] for kernel in kernels) * 1e-9
        self.metrics: dict[str, float] = {}
        self.absent: dict[str, str] = {}
        self.words: dict[str, str] = {}

    def times(self) -> None:
        self.metrics["kernel_launches"] = float(len(self._kernels))
        self.metrics["device_time_us"] = self._seconds * 1e6

    def memory(self) -> None:
        self._put("dram_bytes", list(_possible(names.DRAM, self._kernels) or names.DRAM[0]), self._total)
        self._put("dram_percent", [names.DRAM_PERCENT], self._mean)
        self._put("compute_percent", [names.COMPUTE_PERCENT], self._mean)
        self._put("l1_hit_percent", [names.L1_HIT], self._mean)
        self._put("l2_hit_percent", [names.L2_HIT], self._mean)
        if "dram_bytes" in self.metrics:
            self.metrics["dram_gb_per_s"] = self.metrics["dram_bytes"] / self._seconds / 1e9
        for operation, word in (("ld", "load"), ("st", "store")):
            key = f"{word}_sectors_per_request"
            sectors, requests = (form.format(operation) for form in (names.SECTORS, names.REQUESTS))
            self._put(key, [sectors, requests], lambda both: self._total(both[:1]) / (self._total(both[1:]) or 1.0))
            if key in self.metrics and not self._total([requests]):
                del self.metrics[key]
                self.absent[key] = f"no {word} of global memory by the ordinary path"

    def operations(self, peaks: Peaks | None) -> None:
        for pipe, counter in names.PIPES.items():
            self._put(f"pipe_{pipe}_percent", [counter], self._mean)
        for precision, factors in names.SCALAR.items():
            self._put(f"{precision}_flops", list(factors), self._scalar(factors))
        for precision, ways in names.TENSOR.items():
            self._put(f"tensor_{precision}_flops", list(_possible(ways, self._kernels) or ways[0]), self._total)
        self._dominant_pipe()
        self._roofline(peaks)

    def _dominant_pipe(self) -> None:
        pipes = {key: value for key, value in self.metrics.items() if key.startswith("pipe_")}
        if not pipes:
            self.absent["dominant_pipe"] = self.absent["dominant_pipe_percent"] = "ncu gave no pipe's use"
            return
        largest = max(pipes, key=lambda key: pipes[key])
        self.words["dominant_pipe"] = largest.removeprefix("pipe_").removesuffix("_percent")
        self.metrics["dominant_pipe_percent"] = pipes[largest]

    def _roofline(self, peaks: Peaks | None) -> None:
        if "fp32_flops" in self.metrics:
            self.metrics["fp32_tflops"] = self.metrics["fp32_flops"] / self._seconds / 1e12
        else:
            self.absent["fp32_tflops"] = self.absent["fp32_flops"]
        try:
            flops = _flops(self._kernels)
        except _NotCounted as error:
            self.absent |= dict.fromkeys(("flops", "arithmetic_intensity", "fp16_tflops"), str(error))
            self._against(peaks, "fp32")
            return
        self.metrics["flops"] = total = sum(flops.values())
        if self.metrics.get("dram_bytes"):
            self.metrics["arithmetic_intensity"] = total / self.metrics["dram_bytes"]
        else:
            self.absent["arithmetic_intensity"] = "ncu counted no traffic with memory"
        self.metrics["fp16_tflops"] = (flops["fp16"] + flops["bf16"]) / self._seconds / 1e12
        self._against(peaks, max(flops, key=lambda precision: flops[precision]) if total else "fp32")

    def _against(self, peaks: Peaks | None, precision: str) -> None:
        if peaks is None:
            reason = "no peaks of this device are known"
            keys = ("ridge_point", "peak_gb_per_s", "peak_fp32_tflops", "peak_fp16_tflops", "fp32_percent")
            self.absent |= dict.fromkeys((*keys, "fp16_percent"), reason)
            return
        bandwidth = peaks.dram_bandwidth_bytes_s
        self.metrics["peak_gb_per_s"] = bandwidth / 1e9
        for kind in ("fp32", "fp16"):
            if kind not in peaks.peak_flops:
                self.absent[f"peak_{kind}_tflops"] = self.absent[f"{kind}_percent"] = f"its peak at {kind} is not known"
                continue
            peak = self.metrics[f"peak_{kind}_tflops"] = peaks.peak_flops[kind] / 1e12
            if f"{kind}_tflops" in self.metrics:
                self.metrics[f"{kind}_percent"] = 100 * self.metrics[f"{kind}_tflops"] / peak
            else:
                self.absent[f"{kind}_percent"] = self.absent[f"{kind}_tflops"]
        if precision in peaks.peak_flops:
            self.metrics["ridge_point"] = peaks.peak_flops[precision] / bandwidth
            self.words["ridge_precision"] = precision
        else:
            self.absent["ridge_point"] = f"its peak at {precision} is not known"

    def launch(self) -> None:
        self._put("occupancy_percent", [names.OCCUPANCY], self._mean)
        self._longest_has("theoretical_occupancy_percent", [names.THEORETICAL_OCCUPANCY])
        self._longest_has("registers_per_thread", [names.REGISTERS])
        self._longest_has("block_size", [names.BLOCK])
        self._longest_has("grid_size", [names.GRID])
        self._longest_has("shared_bytes_per_block", list(names.SHARED))
        limits = {word: self._longest[name] for word, name in names.LIMITS.items() if name in self._longest}
        if limits:
            least = min(limits.values())
            self.words["occupancy_limiter"] = ", ".join(word for word, blocks in limits.items() if blocks == least)
        else:
            self.absent["occupancy_limiter"] = "ncu gave no limits of occupancy"

    def stalls(self) -> None:
        issued = [kernel.values.get(names.ISSUED, 0.0) for kernel in self._kernels]
        cycles: dict[str, float] = {}
        for state in names.STATES:
            name = names.STALL.format(state)
            if sum(issued) and all(name in kernel.values for kernel in self._kernels):
                both = zip(self._kernels, issued, strict=True)
                cycles[state] = sum(kernel.values[name] * count for kernel, count in both) / sum(issued)
        if not sum(cycles.values()):
            self.absent["stalls"] = "ncu gave no states of warps"
            return
        for state, value in cycles.items():
            self.metrics[f"stall_{state}_cycles"] = value
            self.metrics[f"stall_{state}_percent"] = 100 * value / sum(cycles.values())

    def bottleneck(self) -> None:
        if not {"dram_percent", "compute_percent"} <= self.metrics.keys():
            self.absent["bottleneck"] = self.absent["sol_score"] = "ncu gave no use of memory or of the SMs"
            return
        kernel_us = self.metrics["device_time_us"] / len(self._kernels)
        self.words["bottleneck"] = bottleneck(self.metrics["dram_percent"], self.metrics["compute_percent"], kernel_us)
        busier = sum(
            kernel.values[names.TIME] * max(kernel.values[names.DRAM_PERCENT], kernel.values[names.COMPUTE_PERCENT])
            for kernel in self._kernels
        )
        self.metrics["sol_score"] = busier * 1e-9 / self._seconds / 100

    def _put(self, key: str, counters: list[str], value: Callable[[list[str]], float]) -> None:
        """The figure, or why it is absent, if each kernel has all of these counters."""
        missing = [name for name in counters if not all(name in kernel.values for kernel in self._kernels)]
        if missing:
            self.absent[key] = f"ncu gave no {missing[0]} on this device"
        else:
            self.metrics[key] = value(counters)

    def _longest_has(self, key: str, counters: list[str]) -> None:
        missing = [name for name in counters if name not in self._longest]
        if missing:
            self.absent[key] = f"ncu gave no {missing[0]} on this device"
        else:
            self.metrics[key] = sum(self._longest[name] for name in counters)

    def _total(self, counters: list[str]) -> float:
        return sum(kernel.values[name] for kernel in self._kernels for name in counters)

    def _scalar(self, factors: dict[str, int]) -> Callable[[list[str]], float]:
        return lambda counters: sum(factors[name] * self._total([name]) for name in counters)

    def _mean(self, counters: list[str]) -> float:
        weighed = sum(kernel.values[counters[0]] * kernel.values[names.TIME] for kernel in self._kernels)
        return weighed * 1e-9 / self._seconds

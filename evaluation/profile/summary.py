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
    return ProfiledKernel(
        name=kernel.name,
        device_time_us=values[names.TIME] / 1e3,
        dram_bytes=sum(values[name] for name in way) if way else None,
        dram_percent=values.get(names.DRAM_PERCENT),
        compute_percent=values.get(names.COMPUTE_PERCENT),
    )


def _possible(ways: Sequence[tuple[str, ...]], kernels: Sequence[Kernel]) -> tuple[str, ...] | None:
    """The first list of counters that all these kernels have."""
    return next((way for way in ways if all(name in kernel.values for kernel in kernels for name in way)), None)


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
        tensor: dict[str, float] = {}
        for precision, ways in names.TENSOR.items():
            key = f"tensor_{precision}_flops"
            self._put(key, list(_possible(ways, self._kernels) or ways[0]), self._total)
            if key in self.metrics:
                tensor[precision] = self.metrics[key]
        self._dominant_pipe()
        self._roofline(tensor, peaks)

    def _dominant_pipe(self) -> None:
        pipes = {key: value for key, value in self.metrics.items() if key.startswith("pipe_")}
        if not pipes:
            self.absent["dominant_pipe"] = self.absent["dominant_pipe_percent"] = "ncu gave no pipe's use"
            return
        largest = max(pipes, key=lambda key: pipes[key])
        self.words["dominant_pipe"] = largest.removeprefix("pipe_").removesuffix("_percent")
        self.metrics["dominant_pipe_percent"] = pipes[largest]

    def _roofline(self, tensor: dict[str, float], peaks: Peaks | None) -> None:
        scalar = {p: self.metrics[f"{p}_flops"] for p in names.SCALAR if f"{p}_flops" in self.metrics}
        by_precision = {
            precision: scalar.get(precision, 0.0) + tensor.get(precision, 0.0)
            for precision in ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8")
        }
        by_precision["fp16"] += scalar.get("half", 0.0)
        if len(scalar) == len(names.SCALAR):
            self.metrics["flops"] = flops = sum(by_precision.values())
            if self.metrics.get("dram_bytes"):
                self.metrics["arithmetic_intensity"] = flops / self.metrics["dram_bytes"]
            self.metrics["fp32_tflops"] = by_precision["fp32"] / self._seconds / 1e12
            if {"fp16", "bf16"} <= tensor.keys():
                self.metrics["fp16_tflops"] = (by_precision["fp16"] + by_precision["bf16"]) / self._seconds / 1e12
        for key, reason in (
            ("flops", "ncu counted no operations"),
            ("arithmetic_intensity", "ncu counted no operations, or no traffic with memory"),
            ("fp32_tflops", "ncu counted no operations"),
            ("fp16_tflops", "ncu counted no operations of tensor cores"),
        ):
            if key not in self.metrics:
                self.absent[key] = reason
        self._against(peaks, max(by_precision, key=lambda p: by_precision[p]) if any(by_precision.values()) else "fp32")

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

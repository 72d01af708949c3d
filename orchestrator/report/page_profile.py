"""The blocks that a profiler fills. What this device cannot measure is named with the reason, never shown as 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evaluation.verdict import Evaluation, Profile, ProfiledKernel
from orchestrator.report.page_format import byte_size, duration, significant
from orchestrator.report.page_rows import Block, Row, unreached


@dataclass(frozen=True, slots=True)
class Figure:
    """One entry of `Profile.metrics`: its key, its label and how it is written."""

    key: str
    label: str
    show: Callable[[float], str] = significant


def _percent(value: float) -> str:
    return f"{significant(value, 3)} %"


def _times(value: float) -> str:
    return f"{value:.2f}x"


def _unit(name: str) -> Callable[[float], str]:
    return lambda value: f"{significant(value)} {name}"


_BLOCKS: tuple[tuple[str, str, tuple[Figure, ...]], ...] = (
    (
        "memory",
        "GPU memory",
        (
            Figure("kernel_peak_bytes", "kernel peak", byte_size),
            Figure("reference_peak_bytes", "reference peak", byte_size),
            Figure("memory_ratio", "kernel / reference", _times),
        ),
    ),
    (
        "launches",
        "kernel launches / fusion",
        (
            Figure("kernel_launches", "kernel launches"),
            Figure("reference_launches", "reference launches"),
            Figure("fusion_ratio", "fusion ratio (reference / kernel)", _times),
            Figure("device_time_us", "total device time", duration),
        ),
    ),
    (
        "sol",
        "SOL (speed of light)",
        (
            Figure("sol_score", "SOL score (0 to 1)"),
            Figure("dram_percent", "DRAM utilisation", _percent),
            Figure("compute_percent", "compute utilisation", _percent),
            Figure("bottleneck", "bottleneck"),
            Figure("dominant_pipe", "dominant pipe"),
            Figure("arithmetic_intensity", "arithmetic intensity", _unit("FLOP/byte")),
            Figure("ridge_point", "ridge point", _unit("FLOP/byte")),
        ),
    ),
    (
        "roofline",
        "roofline / occupancy",
        (
            Figure("dram_gb_per_s", "DRAM bandwidth", _unit("GB/s")),
            Figure("dram_percent", "DRAM utilisation", _percent),
            Figure("fp32_tflops", "FP32", _unit("TFLOPS")),
            Figure("fp32_percent", "FP32 utilisation", _percent),
            Figure("fp16_tflops", "FP16", _unit("TFLOPS")),
            Figure("fp16_percent", "FP16 utilisation", _percent),
            Figure("occupancy_percent", "occupancy", _percent),
            Figure("theoretical_occupancy_percent", "theoretical occupancy", _percent),
            Figure("occupancy_limiter", "occupancy limited by"),
            Figure("bottleneck", "bottleneck"),
            Figure("dominant_pipe_percent", "dominant pipe", _percent),
            Figure("l1_hit_percent", "L1 hits", _percent),
            Figure("l2_hit_percent", "L2 hits", _percent),
            Figure("load_sectors_per_request", "load sectors / request"),
            Figure("store_sectors_per_request", "store sectors / request"),
            Figure("registers_per_thread", "registers / thread"),
            Figure("shared_bytes_per_block", "shared memory / block", byte_size),
            Figure("block_size", "block size", _unit("threads")),
            Figure("peak_gb_per_s", "peak bandwidth", _unit("GB/s")),
            Figure("peak_fp32_tflops", "peak FP32", _unit("TFLOPS")),
            Figure("peak_fp16_tflops", "peak FP16 (dense)", _unit("TFLOPS")),
        ),
    ),
    (
        "energy",
        "energy",
        (
            Figure("kernel_energy_mj", "kernel, per call", _unit("mJ")),
            Figure("reference_energy_mj", "reference, per call", _unit("mJ")),
            Figure("energy_ratio", "kernel / reference", _times),
        ),
    ),
)
_RATIOS = {
    "memory_ratio": ("kernel_peak_bytes", "reference_peak_bytes"),
    "fusion_ratio": ("reference_launches", "kernel_launches"),
    "energy_ratio": ("kernel_energy_mj", "reference_energy_mj"),
}
_ON_CPU = {
    "memory": "judged on a CPU: there is no GPU memory",
    "launches": "judged on a CPU: no kernels are launched",
    "sol": "judged on a CPU: this takes a GPU's hardware counters",
    "roofline": "judged on a CPU: this takes a GPU's hardware counters",
    "stalls": "judged on a CPU: there are no warps",
    "energy": "judged on a CPU: no energy counter is read",
}
_STALL = "stall_"
_MOST_KERNELS = 20
_MOST_NAME_CHARS = 120
_PIPE = "pipe_"


def profile_blocks(grade: Evaluation | None) -> list[Block]:
    """One block per kind of figure; an absent figure is looked up in `Profile.absent` by its key, then its block's."""
    profile = grade.profile if grade and grade.profile else Profile(absent=_absent(grade))
    metrics = _with_ratios(profile.metrics)
    blocks = [
        Block(title=title, rows=[_row(figure, block, metrics, profile) for figure in figures])
        for block, title, figures in _BLOCKS
    ]
    blocks.insert(4, _stalls(profile))
    shown = {figure.key for _, _, figures in _BLOCKS for figure in figures}
    others = {key: value for key, value in profile.metrics.items() if key not in shown and not key.startswith(_STALL)}
    if others:
        blocks.append(
            Block(title="other figures", rows=[Row(key, significant(value)) for key, value in sorted(others.items())])
        )
    if profile.kernels:
        blocks.append(_kernels(profile))
    return blocks


def _kernels(profile: Profile) -> Block:
    """The kernels of one forward that took the most time, in the order of launches."""
    longest = sorted(profile.kernels, key=lambda kernel: -kernel.device_time_us)[:_MOST_KERNELS]
    rows = [
        Row(f"{number}. {kernel.name[:_MOST_NAME_CHARS]}", _of_kernel(kernel))
        for number, kernel in enumerate(profile.kernels, 1)
        if any(kernel is one for one in longest)
    ]
    return Block(title=f"kernels of one forward ({len(rows)} of {len(profile.kernels)})", rows=rows)


def _of_kernel(kernel: ProfiledKernel) -> str:
    parts = [duration(kernel.device_time_us)]
    if kernel.dram_bytes is not None:
        parts.append(f"DRAM {byte_size(kernel.dram_bytes)}")
    if kernel.dram_percent is not None:
        parts.append(f"DRAM {_percent(kernel.dram_percent)}")
    if kernel.compute_percent is not None:
        parts.append(f"compute {_percent(kernel.compute_percent)}")
    return ", ".join(parts)


def _absent(grade: Evaluation | None) -> dict[str, str]:
    """Why an evaluation without a profile has none, by block."""
    if grade is None or not grade.status.correct or grade.environment is None:
        reasons = dict.fromkeys(_ON_CPU, unreached(grade, "profile"))
    elif grade.environment.device == "cpu":
        reasons = _ON_CPU
    else:
        reasons = dict.fromkeys(_ON_CPU, "no profile was taken")
    return reasons


def _with_ratios(metrics: dict[str, float]) -> dict[str, float]:
    ratios = {
        name: metrics[above] / metrics[below]
        for name, (above, below) in _RATIOS.items()
        if above in metrics and metrics.get(below)
    }
    return ratios | metrics


def _row(figure: Figure, block: str, metrics: dict[str, float], profile: Profile) -> Row:
    if figure.key in metrics:
        return Row(figure.label, figure.show(metrics[figure.key]))
    words = profile.words.get(figure.key) or _in_words(figure.key, metrics)
    if words:
        return Row(figure.label, words)
    parts = [figure.key, *_RATIOS.get(figure.key, ()), block]
    reason = next((profile.absent[part] for part in parts if part in profile.absent), "not recorded by this evaluator")
    return Row(figure.label, absent=reason)


def _in_words(key: str, metrics: dict[str, float]) -> str:
    """Name the figures that are no number: the busier of two utilisations, the busiest pipe."""
    if key == "bottleneck" and "dram_percent" in metrics and "compute_percent" in metrics:
        return "memory" if metrics["dram_percent"] >= metrics["compute_percent"] else "compute"
    pipes = {name: value for name, value in metrics.items() if name.startswith(_PIPE)}
    if key == "dominant_pipe" and pipes:
        return max(pipes, key=lambda name: pipes[name]).removeprefix(_PIPE).removesuffix("_percent")
    return ""


def _stalls(profile: Profile) -> Block:
    """The five largest shares of what warps spend their cycles on, with the cycles for each instruction issued."""
    stalls = {
        key: value for key, value in profile.metrics.items() if key.startswith(_STALL) and key.endswith("_percent")
    }
    if not stalls:
        reason = profile.absent.get("stalls", "not recorded by this evaluator")
        return Block(title="warp stalls (top 5)", rows=[Row("stall reasons", absent=reason)])
    largest = sorted(stalls, key=lambda key: -stalls[key])[:5]
    rows = [
        Row(key.removeprefix(_STALL).removesuffix("_percent"), _percent(stalls[key]) + _cycles(key, profile.metrics))
        for key in largest
    ]
    return Block(title="warp stalls (top 5)", rows=rows)


def _cycles(key: str, metrics: dict[str, float]) -> str:
    name = key.removesuffix("_percent") + "_cycles"
    return f" ({significant(metrics[name])} cycles per issued instruction)" if name in metrics else ""

"""The blocks that a profiler fills. What this device cannot measure is named with the reason, never shown as 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from evaluation.verdict import Evaluation, Profile, ProfiledKernel
from orchestrator.profiled import BOTTLENECK, believable, bottleneck_of, figures_of
from orchestrator.report.page_bars import kernels_picture, stalled_cycles, stalls, stalls_picture
from orchestrator.report.page_format import byte_size, duration, significant
from orchestrator.report.page_roofline import roofline
from orchestrator.report.page_rows import Block, Row, unreached

_PREFIXES = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


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


def _whole(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else significant(value)


def _operations(value: float) -> str:
    prefix, size = next(((prefix, size) for prefix, size in _PREFIXES if value >= size), ("", 1.0))
    return f"{significant(value / size) if size > 1 else _whole(value)} {prefix}FLOP"


def _blocks(value: float) -> str:
    return f"{_whole(value)} blocks"


def _threads(value: float) -> str:
    return f"{_whole(value)} threads"


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
            Figure("kernel_launches", "kernel launches", _whole),
            Figure("reference_launches", "reference launches", _whole),
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
            Figure("dram_bytes", "DRAM traffic", byte_size),
            Figure("flops", "operations", _operations),
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
            Figure("registers_per_thread", "registers / thread", _whole),
            Figure("shared_bytes_per_block", "shared memory / block", byte_size),
            Figure("block_size", "block size", _threads),
            Figure("grid_size", "grid size", _blocks),
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
_QUALIFIED = {"ridge_point": "ridge_precision", "dominant_pipe_percent": "dominant_pipe"}
"""Figures that another word makes whole."""
_ON_CPU = {
    "memory": "judged on a CPU: there is no GPU memory",
    "launches": "judged on a CPU: no kernels are launched",
    "sol": "judged on a CPU: this takes a GPU's hardware counters",
    "roofline": "judged on a CPU: this takes a GPU's hardware counters",
    "stalls": "judged on a CPU: there are no warps",
    "energy": "judged on a CPU: no energy counter is read",
}
_COUNTED = ("sol", "roofline", "stalls")
_ENDINGS: dict[str, tuple[str, Callable[[float], str]]] = {
    "_percent": ("", _percent),
    "_tflops": ("", _unit("TFLOPS")),
    "_flops": (" operations", _operations),
    "_bytes": ("", byte_size),
    "_us": ("", duration),
    "_mj": ("", _unit("mJ")),
}
"""How a key ends -> what its label has in that place, and how the figure is written."""
PROFILE_COLUMNS = {
    "bottleneck": BOTTLENECK, "SOL score": "sol_score", "DRAM": "dram_percent", "compute": "compute_percent",
    "occupancy": "occupancy_percent", "launches": "kernel_launches",
}  # fmt: skip
"""What the table of an experiment's cells has of their profiles, under short names."""
_STALL = "stall_"
_MOST_KERNELS = 20
_MOST_NAME_CHARS = 120
_PIPE = "pipe_"


def profile_blocks(grade: Evaluation | None, earlier: Sequence[tuple[str, Profile]] = ()) -> list[Block]:
    """One block per kind of figure; an absent figure is looked up in `Profile.absent` by its key, then its block's.

    `earlier` are profiles that the cell's tools gave, each with its turn in words.
    """
    profile = believable(grade.profile if grade and grade.profile else Profile(absent=_absent(grade)))
    metrics = _with_ratios(profile.metrics)
    blocks = {
        block: Block(
            title=title,
            source=_source(block, profile),
            rows=[_row(figure, block, metrics, profile) for figure in figures],
        )
        for block, title, figures in _BLOCKS
    }
    blocks["roofline"] = _with_roofline(blocks["roofline"], profile, earlier)
    found = [*list(blocks.values())[:-1], _stalls(profile), blocks["energy"]]
    shown = {figure.key for _, _, figures in _BLOCKS for figure in figures}
    others = {key: value for key, value in profile.metrics.items() if key not in shown and not key.startswith(_STALL)}
    if others:
        rows = [_by_its_name(key, value) for key, value in sorted(others.items())]
        found.append(Block(title="other figures", rows=rows))
    if profile.kernels:
        found.append(_kernels(profile))
    return found


def _source(block: str, profile: Profile) -> str:
    """How the figures of a block were measured, where there are any."""
    how, where = (profile.words.get(word, "") for word in ("counters", "counters_sandbox"))
    if block == "launches" or (block in _COUNTED and "dram_percent" in profile.metrics):
        return f"{how}; sandbox: {where}" if where and block == "sol" else how
    return ""


def profile_texts(grade: Evaluation | None) -> list[tuple[str, float | str | None]]:
    """(text, sort key) of each of PROFILE_COLUMNS; `-` and None where it is absent."""
    found: dict[str, float | str] = {**figures_of(grade)}
    if (bottleneck := bottleneck_of(grade)) is not None:
        found[BOTTLENECK] = bottleneck
    shows = {figure.key: figure.show for _, _, figures in _BLOCKS for figure in figures}
    texts = {key: value if isinstance(value, str) else shows[key](value) for key, value in found.items()}
    return [(texts.get(key, "-"), found.get(key)) for key in PROFILE_COLUMNS.values()]


def _with_roofline(block: Block, profile: Profile, earlier: Sequence[tuple[str, Profile]]) -> Block:
    drawn, words = roofline(profile, earlier)
    row = Row("roofline plot", words) if drawn is not None else Row("roofline plot", absent=words)
    return replace(block, rows=[*block.rows, row], picture=drawn)


def _by_its_name(key: str, value: float) -> Row:
    """A figure that has no place of its own, in words and with the unit that its key ends in."""
    end = next((end for end in _ENDINGS if key.endswith(end)), "")
    words, show = _ENDINGS.get(end, ("", significant))
    return Row((key.removesuffix(end) + words).replace("_", " "), show(value))


def _kernels(profile: Profile) -> Block:
    """The kernels of one forward that took the most time, in the order of launches."""
    longest = sorted(profile.kernels, key=lambda kernel: -kernel.device_time_us)[:_MOST_KERNELS]
    rows = [
        Row(f"launch {number}", f"{_bounded(kernel.name)}: {_of_kernel(kernel)}")
        for number, kernel in enumerate(profile.kernels, 1)
        if any(kernel is one for one in longest)
    ]
    title = f"kernels of one forward ({len(rows)} of {len(profile.kernels)})"
    return Block(title=title, rows=rows, picture=kernels_picture(profile.kernels))


def _bounded(name: str) -> str:
    return name if len(name) <= _MOST_NAME_CHARS else f"{name[: _MOST_NAME_CHARS - 1]}…"


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
        of = profile.words.get(_QUALIFIED.get(figure.key, ""), "")
        return Row(figure.label, figure.show(metrics[figure.key]) + (f" ({of})" if of else ""))
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
    """What warps spend their cycles on: the five largest, as shares and as cycles for each instruction issued."""
    title = "warp stalls (top 5)"
    if not stalls(profile.metrics):
        reason = profile.absent.get("stalls", "not recorded by this evaluator")
        return Block(title=title, rows=[Row("stall reasons", absent=reason)])
    cycles = stalled_cycles(profile.metrics)
    known = Row("all states", f"{cycles:.2f} cycles of a warp for each instruction issued") if cycles else None
    silent = Row("all states", absent="the cycles for each instruction issued are not recorded")
    return Block(
        title=title,
        source=_source("stalls", profile),
        rows=[known or silent],
        picture=stalls_picture(profile.metrics),
    )

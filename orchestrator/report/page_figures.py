"""The figures of a profile: under which label a page has them, in which order, and how each is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evaluation.verdict import Evaluation
from orchestrator.profiled import BOTTLENECK, bottleneck_of, figures_of
from orchestrator.report.page_format import byte_size, duration, significant
from orchestrator.report.page_rows import Row

_PREFIXES = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


@dataclass(frozen=True, slots=True)
class Figure:
    """One entry of `Profile.metrics`: its key, its label and how it is written."""

    key: str
    label: str
    show: Callable[[float], str] = significant


def percent(value: float) -> str:
    """`37.6 %`."""
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


BLOCKS: tuple[tuple[str, str, tuple[Figure, ...]], ...] = (
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
            Figure("dram_percent", "DRAM utilisation", percent),
            Figure("compute_percent", "compute utilisation", percent),
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
            Figure("dram_percent", "DRAM utilisation", percent),
            Figure("dram_bytes", "DRAM traffic", byte_size),
            Figure("flops", "operations", _operations),
            Figure("fp32_tflops", "FP32", _unit("TFLOPS")),
            Figure("fp32_percent", "FP32 utilisation", percent),
            Figure("fp16_tflops", "FP16", _unit("TFLOPS")),
            Figure("fp16_percent", "FP16 utilisation", percent),
            Figure("occupancy_percent", "occupancy", percent),
            Figure("theoretical_occupancy_percent", "theoretical occupancy", percent),
            Figure("occupancy_limiter", "occupancy limited by"),
            Figure("bottleneck", "bottleneck"),
            Figure("dominant_pipe_percent", "dominant pipe", percent),
            Figure("l1_hit_percent", "L1 hits", percent),
            Figure("l2_hit_percent", "L2 hits", percent),
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
_ENDINGS: dict[str, tuple[str, Callable[[float], str]]] = {
    "_percent": ("", percent),
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


def profile_texts(grade: Evaluation | None) -> list[tuple[str, float | str | None]]:
    """(text, sort key) of each of PROFILE_COLUMNS; `-` and None where it is absent."""
    found: dict[str, float | str] = {**figures_of(grade)}
    if (bottleneck := bottleneck_of(grade)) is not None:
        found[BOTTLENECK] = bottleneck
    shows = {figure.key: figure.show for _, _, figures in BLOCKS for figure in figures}
    texts = {key: value if isinstance(value, str) else shows[key](value) for key, value in found.items()}
    return [(texts.get(key, "-"), found.get(key)) for key in PROFILE_COLUMNS.values()]


def by_its_name(key: str, value: float) -> Row:
    """A figure that has no place of its own, in words and with the unit that its key ends in."""
    end = next((end for end in _ENDINGS if key.endswith(end)), "")
    words, show = _ENDINGS.get(end, ("", significant))
    return Row((key.removesuffix(end) + words).replace("_", " "), show(value))

"""The blocks that a profiler fills. What this device cannot measure is named with the reason, never shown as 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evaluation.verdict import Evaluation, Profile, ProfiledKernel
from orchestrator.report.page_bars import kernels_picture, stalled_cycles, stalls, stalls_picture
from orchestrator.report.page_figures import BLOCKS, Figure, by_its_name, percent
from orchestrator.report.page_format import byte_size, duration
from orchestrator.report.page_roofline import roofline
from orchestrator.report.page_rows import Block, Row, unreached

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
_STALL = "stall_"
_MOST_KERNELS = 20
_MOST_NAME_CHARS = 120
_PIPE = "pipe_"


def profile_blocks(grade: Evaluation | None, earlier: Sequence[tuple[str, Profile]] = ()) -> list[Block]:
    """One block per kind of figure; an absent figure is looked up in `Profile.absent` by its key, then its block's.

    `earlier` are profiles that the cell's tools gave, each with its turn in words.
    """
    profile = grade.profile if grade and grade.profile else Profile(absent=_absent(grade))
    metrics = _with_ratios(profile.metrics)
    blocks = {
        block: Block(
            title=title,
            source=_source(block, profile),
            rows=[_row(figure, block, metrics, profile) for figure in figures],
        )
        for block, title, figures in BLOCKS
    }
    blocks["roofline"] = _with_roofline(blocks["roofline"], profile, earlier)
    found = [*list(blocks.values())[:-1], _stalls(profile), blocks["energy"]]
    shown = {figure.key for _, _, figures in BLOCKS for figure in figures}
    others = {key: value for key, value in profile.metrics.items() if key not in shown and not key.startswith(_STALL)}
    if others:
        rows = [by_its_name(key, value) for key, value in sorted(others.items())]
        found.append(Block(title="other figures", rows=rows))
    if profile.kernels:
        found.append(_kernels(profile))
    return found


def _source(block: str, profile: Profile) -> str:
    """How the figures of a block were measured, where there are any."""
    how, where = (profile.words.get(word, "") for word in ("counters", "counters_sandbox"))
    if block == "launches" or (block in _COUNTED and "dram_percent" in profile.metrics):
        beside = {"sol": ("sandbox", where), "roofline": ("peaks", profile.words.get("peaks", ""))}
        label, words = beside.get(block, ("", ""))
        return f"{how}; {label}: {words}" if words else how
    return ""


def _with_roofline(block: Block, profile: Profile, earlier: Sequence[tuple[str, Profile]]) -> Block:
    drawn, words = roofline(profile, earlier)
    row = Row("roofline plot", words) if drawn is not None else Row("roofline plot", absent=words)
    return replace(block, rows=[*block.rows, row], picture=drawn)


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
        parts.append(f"DRAM {percent(kernel.dram_percent)}")
    if kernel.compute_percent is not None:
        parts.append(f"compute {percent(kernel.compute_percent)}")
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

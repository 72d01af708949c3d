"""The text of profile_kernel: what limits a kernel first, then the figures behind it; the candidate's alone.

Of a Profile only the keys named here are shown. Those of the reference (`reference_*`, and `fusion_ratio`, which holds
its launches) are never read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from agents.tools.profile_hints import hints
from evaluation.profile.summary import BUSY_PERCENT, LAUNCH_US
from evaluation.verdict import Profile, ProfiledKernel

KERNELS_SHOWN = 5
STALLS_SHOWN = 3
REASONS_SHOWN = 6
NAME_CHARS = 120
REASON_CHARS = 160
_STALL_PERCENT = 5.0
"""A state that takes less of the warps' cycles tells nothing."""

_RULE = {
    "memory": f"DRAM works at {BUSY_PERCENT:.0f} % of its peak or more, and is busier than the SMs",
    "compute": f"the SMs work at {BUSY_PERCENT:.0f} % of their peak or more, and are busier than DRAM",
    "launch": f"neither DRAM nor the SMs reach {BUSY_PERCENT:.0f} %, and a kernel takes less than {LAUNCH_US:.0f} μs",
    "latency": f"neither DRAM nor the SMs reach {BUSY_PERCENT:.0f} %, and a kernel takes {LAUNCH_US:.0f} μs or more: "
    "warps wait",
}
_STALLS = {
    "barrier": "at a barrier for the other warps of the block",
    "branch_resolving": "for a branch to be decided",
    "dispatch_stall": "for the dispatcher",
    "drain": "for stores before the exit",
    "imc_miss": "for constants that are not in their cache",
    "lg_throttle": "for room in the queue of global and local memory",
    "long_scoreboard": "for data of global, local or texture memory",
    "math_pipe_throttle": "for a busy arithmetic pipe",
    "membar": "at a memory fence",
    "mio_throttle": "for room in the queue of shared memory and special functions",
    "misc": "for something else",
    "no_instruction": "for instructions to be fetched",
    "not_selected": "while another warp was issued",
    "short_scoreboard": "for data of shared memory or of a special function",
    "sleeping": "in nanosleep",
    "tex_throttle": "for room in the texture queue",
    "wait": "a fixed time for the instruction before",
}
"""What a warp waits for, by ncu's state; `selected`, which issues, is left out."""
_ABSENT = {
    "sol": "use of DRAM and SMs",
    "roofline": "operations",
    "stalls": "stall reasons",
    "kernel_energy_mj": "energy",
    "kernel_launches": "launches",
    "kernel_peak_bytes": "memory allocated",
}
"""What is absent in words, where its key does not say it."""
_POINTS = "%"


@dataclass(frozen=True, slots=True)
class Earlier:
    """The profile before this one in the session."""

    kernel_id: str
    profile: Profile


def profile_lines(profile: Profile, earlier: Earlier | None) -> list[str]:
    """All sections, in one order; a section without figures is left out or says why it has none."""
    return [
        *_limit(profile),
        *_section("Kernel Breakdown (by GPU time)", _kernels(profile.kernels)),
        *_section("Diagnostics", _diagnostics(profile)),
        *_section("Warp Stall Reasons (% of the cycles of warps)", _stalls(profile)),
        *_section("Optimization Hints", [f"  -> {hint}" for hint in hints(profile)]),
        *_section("Not Measured", _absent(profile)),
        *_section("Change since the Last Profile", _change(profile, earlier)),
    ]


def _section(name: str, lines: list[str]) -> list[str]:
    return [f"--- {name} ---", *lines] if lines else []


def _limit(profile: Profile) -> list[str]:
    """The bottleneck and the three numbers that the rule goes by."""
    found, word = profile.metrics, profile.words.get("bottleneck")
    if word is None:
        why = profile.absent.get("bottleneck") or profile.absent.get("sol") or "no counters"
        head = f"Bottleneck: not known ({why[:REASON_CHARS]})"
    else:
        head = f"Bottleneck: {word} ({_RULE[word]})"
    lines = [head]
    if "compute_percent" in found:
        lines.append(f"  SM throughput: {found['compute_percent']:.1f} % of peak")
    if "dram_percent" in found:
        lines.append(f"  DRAM throughput: {found['dram_percent']:.1f} % of peak{_bandwidth(found)}")
    launches, total_us = found.get("kernel_launches"), found.get("device_time_us")
    if launches and total_us is not None:
        lines.append(f"  mean kernel duration: {total_us / launches:.2f} μs (launches: {launches:.0f})")
    if "sol_score" in found:
        lines.append(f"  SOL score: {found['sol_score']:.3f} (0 to 1: use of the busier of DRAM and SMs)")
    if "counters" in profile.words:
        lines.append(f"  measured by: {profile.words['counters']}")
    if "peaks" in profile.words and "peak_gb_per_s" in found:
        lines.append(f"  peaks by: {profile.words['peaks'].partition(':')[0]}")
    return lines


def _bandwidth(found: dict[str, float]) -> str:
    if "dram_gb_per_s" not in found:
        return ""
    peak = f" of {found['peak_gb_per_s']:.0f}" if "peak_gb_per_s" in found else ""
    return f" ({found['dram_gb_per_s']:.0f}{peak} GB/s)"


def _kernels(kernels: Iterable[ProfiledKernel]) -> list[str]:
    """Launches of one name together, the longest first."""
    by_name: dict[str, list[ProfiledKernel]] = defaultdict(list)
    for kernel in kernels:
        by_name[kernel.name].append(kernel)
    total_us = sum(_us(launches) for launches in by_name.values())
    ranked = sorted(by_name.items(), key=lambda item: (-_us(item[1]), item[0]))
    rows = [f"  {_share(launches, total_us)}  {_short(name)}{_use(launches)}" for name, launches in ranked]
    rest = [kernel for _, launches in ranked[KERNELS_SHOWN:] for kernel in launches]
    if rest:
        rows[KERNELS_SHOWN:] = [f"  {_share(rest, total_us)}  in {len(ranked) - KERNELS_SHOWN} further kernels"]
    return rows


def _us(kernels: Iterable[ProfiledKernel]) -> float:
    return sum(kernel.device_time_us for kernel in kernels)


def _share(launches: list[ProfiledKernel], total_us: float) -> str:
    part_us = _us(launches)
    return f"{part_us:.2f} μs  {100 * part_us / total_us if total_us else 0.0:.1f} %  {len(launches)} x"


def _short(name: str) -> str:
    name = " ".join(name.split())  # the candidate chose it
    return name if len(name) <= NAME_CHARS else f"{name[: NAME_CHARS - 3]}..."


def _use(launches: list[ProfiledKernel]) -> str:
    """Of all launches of one kernel, each weighed by its duration."""
    total_us = _us(launches)
    parts = []
    for label, field in (("DRAM", "dram_percent"), ("SM", "compute_percent")):
        values = [getattr(kernel, field) for kernel in launches]
        if total_us and None not in values:
            pairs = zip(values, launches, strict=True)
            parts.append(f"{label} {sum(value * kernel.device_time_us for value, kernel in pairs) / total_us:.1f} %")
    return f"  ({', '.join(parts)})" if parts else ""


def _diagnostics(profile: Profile) -> list[str]:
    found, words = profile.metrics, profile.words
    lines = [_occupancy(profile)] if "occupancy_percent" in found else []
    launch = [
        f"{found[key]:.0f} {unit}"
        for key, unit in (
            ("registers_per_thread", "registers per thread"),
            ("block_size", "threads per block"),
            ("grid_size", "blocks"),
            ("shared_bytes_per_block", "bytes of shared memory per block"),
        )
        if key in found
    ]
    if launch:
        lines.append(f"longest kernel: {', '.join(launch)}")
    if "dominant_pipe_percent" in found:
        lines.append(f"busiest pipe: {words['dominant_pipe']}, {found['dominant_pipe_percent']:.1f} % of its peak")
    lines += _operations(profile)
    caches = [f"{n} {found[k]:.1f} %" for n, k in (("L1", "l1_hit_percent"), ("L2", "l2_hit_percent")) if k in found]
    if caches:
        lines.append(f"cache hits: {', '.join(caches)}")
    for word in ("load", "store"):
        if f"{word}_sectors_per_request" in found:
            value = found[f"{word}_sectors_per_request"]
            lines.append(f"global {word}s: {value:.1f} sectors of 32 bytes per request of a warp")
    if "dram_bytes" in found:
        lines.append(f"DRAM traffic: {found['dram_bytes'] / 1e6:.2f} MB per call")
    if "kernel_peak_bytes" in found:
        lines.append(f"memory allocated by a call: {found['kernel_peak_bytes'] / 1e6:.2f} MB at its peak")
    if "kernel_energy_mj" in found:
        lines.append(f"energy of the board: {found['kernel_energy_mj']:.2f} mJ per call")
    return [f"  {line}" for line in lines]


def _occupancy(profile: Profile) -> str:
    found = profile.metrics
    limiter = profile.words.get("occupancy_limiter")
    by = f", limited by {limiter}" if limiter else ""
    theoretical = found.get("theoretical_occupancy_percent")
    most = "" if theoretical is None else f" (at most {theoretical:.1f} %{by})"
    return f"occupancy: {found['occupancy_percent']:.1f} %{most}"


def _operations(profile: Profile) -> list[str]:
    """What was computed, where all of it was counted: with some of tensor cores' missing, a sum would mislead."""
    found = profile.metrics
    uncounted = [key for key in profile.absent if key.startswith("tensor_") and key.endswith("_flops")]
    lines = []
    if found.get("flops") and not uncounted:
        lines.append(f"operations: {found['flops'] / 1e9:.3f} GFLOP per call")
        if "arithmetic_intensity" in found:
            ridge = found.get("ridge_point")
            at = profile.words.get("ridge_precision", "")
            beside = "" if ridge is None else f" (at {ridge:.0f} and above {at} peak is in reach)"
            lines.append(f"arithmetic intensity: {found['arithmetic_intensity']:.2f} FLOP/byte of DRAM traffic{beside}")
    for kind in ("fp32", "fp16"):
        if found.get(f"{kind}_tflops"):
            part = found.get(f"{kind}_percent")
            share = "" if part is None else f" ({part:.1f} % of peak)"
            lines.append(f"{kind} rate: {found[f'{kind}_tflops']:.3g} TFLOP/s{share}")
    return lines


def _stalls(profile: Profile) -> list[str]:
    shares = [(profile.metrics.get(f"stall_{state}_percent", 0.0), state) for state in _STALLS]
    ranked = sorted((-share, state) for share, state in shares if share >= _STALL_PERCENT)
    return [f"  {-share:.1f} %  {state}: {_STALLS[state]}" for share, state in ranked[:STALLS_SHOWN]]


def _absent(profile: Profile) -> list[str]:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for key, reason in sorted(profile.absent.items()):
        if key != "fusion_ratio" and not key.startswith("reference_"):
            by_reason[reason[:REASON_CHARS]].append(_ABSENT.get(key, key.replace("_", " ")))
    lines = [f"  {', '.join(names)}: {reason}" for reason, names in by_reason.items()]
    if len(lines) > REASONS_SHOWN:
        lines[REASONS_SHOWN:] = [f"  and more, for {len(lines) - REASONS_SHOWN} other reasons"]
    return lines


_COMPARED = (
    ("device time", "device_time_us", "μs"),
    ("launches", "kernel_launches", ""),
    ("DRAM traffic", "dram_bytes", "MB"),
    ("DRAM throughput", "dram_percent", _POINTS),
    ("SM throughput", "compute_percent", _POINTS),
    ("occupancy", "occupancy_percent", _POINTS),
    ("registers per thread", "registers_per_thread", ""),
)


def _change(profile: Profile, earlier: Earlier | None) -> list[str]:
    if earlier is None:
        return ["  none: this is the first profile of the session"]
    before = earlier.profile
    if before.words.get("counters") != profile.words.get("counters"):
        return [f"  not comparable with kernel {earlier.kernel_id}, which was measured by other means"]
    lines = [f"  against kernel {earlier.kernel_id}"]
    words = (before.words.get("bottleneck"), profile.words.get("bottleneck"))
    if None not in words:
        lines.append(f"  bottleneck: {words[0]} -> {words[1]}" if words[0] != words[1] else f"  bottleneck: {words[0]}")
    for label, key, unit in _COMPARED:
        if key in before.metrics and key in profile.metrics:
            lines.append(f"  {label}: {_moved(before.metrics[key], profile.metrics[key], unit)}")
    return lines


def _moved(before: float, after: float, unit: str) -> str:
    if unit == _POINTS:
        return f"{before:.1f} % -> {after:.1f} % ({after - before:+.1f} points)"
    if not unit:
        return f"{before:.0f} -> {after:.0f}"
    scale = 1e6 if unit == "MB" else 1.0
    return f"{before / scale:.2f} -> {after / scale:.2f} {unit}{_relative(before, after)}"


def _relative(before: float, after: float) -> str:
    if not before:
        return ""
    times = after / before
    return f" ({times:.0f} times)" if times >= 10 else f" ({100 * (times - 1):+.1f} %)"

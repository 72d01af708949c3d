"""Hints of profile_kernel. Each stands on figures of the profile, which it states; without them it is not given."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from evaluation.profile.summary import BUSY_PERCENT
from evaluation.verdict import Profile

HINTS_SHOWN = 4
SCATTERED_SECTORS = 16.0
"""Sectors of 32 bytes that a warp's request has where each lane reads 16 bytes beside its neighbour's: no coalesced
access has more."""
OFTEN_PERCENT = 25.0
"""Share of the warps' cycles from which a cause of waiting is worth a hint."""


def hints(profile: Profile) -> list[str]:
    """The most important ones, in the order of this file."""
    return [hint for rule in _RULES for hint in rule(profile)][:HINTS_SHOWN]


def _launches(profile: Profile) -> Iterator[str]:
    launches, total_us = (profile.metrics.get(key, 0.0) for key in ("kernel_launches", "device_time_us"))
    if profile.words.get("bottleneck") == "launch" and launches > 1 and total_us:
        yield f"{launches:.0f} launches of {total_us / launches:.2f} μs on average: do the work in fewer kernels"


def _traffic(profile: Profile) -> Iterator[str]:
    busy = profile.metrics.get("dram_percent")
    if profile.words.get("bottleneck") == "memory" and busy is not None:
        yield (
            f"DRAM is at {busy:.1f} % of its peak: only moving fewer bytes helps (fuse what reads the same data, keep "
            "intermediate results on the chip)"
        )


def _scattered(profile: Profile) -> Iterator[str]:
    for word in ("load", "store"):
        sectors = profile.metrics.get(f"{word}_sectors_per_request", 0.0)
        if sectors > SCATTERED_SECTORS:
            yield (
                f"a warp's global {word} touches {sectors:.1f} sectors of 32 bytes, where coalesced ones touch at most "
                f"{SCATTERED_SECTORS:.0f}: let neighbouring threads access neighbouring addresses"
            )


def _double(profile: Profile) -> Iterator[str]:
    share = profile.metrics.get("pipe_fp64_percent", 0.0)
    if profile.words.get("dominant_pipe") == "fp64" and share >= BUSY_PERCENT:
        yield f"the busiest pipe is fp64, at {share:.1f} % of its peak: look for double constants or double arithmetic"


def _no_tensor(profile: Profile) -> Iterator[str]:
    fma, tensor = (profile.metrics.get(key) for key in ("dominant_pipe_percent", "pipe_tensor_percent"))
    by_fma = profile.words.get("bottleneck") == "compute" and profile.words.get("dominant_pipe") == "fma"
    if by_fma and fma is not None and tensor is not None and tensor < 1.0:
        yield (
            f"the fma pipe is at {fma:.1f} % of its peak and tensor cores at {tensor:.1f} %: if this is a product of "
            "matrices, tensor cores may do it where the required precision permits"
        )


def _waits(profile: Profile) -> Iterator[str]:
    # Where DRAM or the SMs are busy, warps that wait are no loss.
    if profile.words.get("bottleneck") in ("launch", "latency"):
        shares = ((profile.metrics.get(f"stall_{state}_percent", 0.0), state) for state in _ADVICE)
        for share, state in sorted(shares, reverse=True):
            if share >= OFTEN_PERCENT:
                yield f"warps spend {share:.1f} % of their cycles in {state}: {_ADVICE[state]}"


_ADVICE = {
    "long_scoreboard": "have more loads of global memory under way at a time (independent loads, wider loads, "
    "asynchronous copies, more warps)",
    "barrier": "synchronise less often, or give the warps of a block equal work",
    "short_scoreboard": "access shared memory less often, wider, or without bank conflicts",
    "mio_throttle": "access shared memory less often or wider, and use fewer special functions",
    "lg_throttle": "use fewer and wider accesses to global and local memory",
    "branch_resolving": "use fewer branches in inner loops",
    "imc_miss": "index constant memory alike in all threads of a warp",
    "membar": "use fewer memory fences",
}


def _occupancy(profile: Profile) -> Iterator[str]:
    found = profile.metrics
    most, reached = found.get("theoretical_occupancy_percent"), found.get("occupancy_percent")
    limiter = profile.words.get("occupancy_limiter")
    if profile.words.get("bottleneck") != "latency" or most is None or reached is None:
        return
    if most < 50.0 and limiter:
        yield f"at most {most:.1f} % of an SM's warps fit, limited by {limiter}: warps are lacking to hide waits"
    elif reached < most / 2:
        yield (
            f"{reached:.1f} % of an SM's warps are there on average, of {most:.1f} % that fit: the grid is small, or "
            "its blocks end at different times"
        )


_RULES: tuple[Callable[[Profile], Iterator[str]], ...] = (
    _launches,
    _traffic,
    _scattered,
    _double,
    _no_tensor,
    _waits,
    _occupancy,
)

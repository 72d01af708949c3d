"""A profile in one line, and the profile that has nothing but its reason; loads no torch."""

from __future__ import annotations

from evaluation.verdict import Profile

BLOCKS = ("memory", "launches", "sol", "roofline", "stalls", "energy")
"""The kinds of figures: what `Profile.absent` names where a whole kind is missing."""
_REASON_CHARS = 300
_COUNTED = {"SOL": "sol_score", "DRAM": "dram_percent", "compute": "compute_percent"}


def without(reason: str) -> Profile:
    """A profile in which all is absent for one reason."""
    return Profile(absent=dict.fromkeys(BLOCKS, reason[:_REASON_CHARS]))


def brief(profile: Profile) -> str:
    """`compute-bound: SOL 0.904, DRAM 20.0 %, compute 90.4 %`; without counters what else there is, and why.

    SOL is the score from 0 to 1, the others are shares of what the device can do at most.
    """
    metrics, bottleneck = profile.metrics, profile.words.get("bottleneck")
    if bottleneck is not None and all(key in metrics for key in _COUNTED.values()):
        shares = (f"{label} {metrics[key]:.1f} %" for label, key in list(_COUNTED.items())[1:])
        return f"{bottleneck}-bound: SOL {metrics['sol_score']:.3f}, {', '.join(shares)}"
    reason = next((profile.absent[key] for key in ("bottleneck", "sol") if key in profile.absent), "not counted")
    others = []
    if (launches := metrics.get("kernel_launches")) is not None:
        others.append(f"{launches:.0f} launch{'' if launches == 1 else 'es'}")
    if (device_us := metrics.get("device_time_us")) is not None:
        others.append(f"{device_us:.2f} us of device time")
    return f"{', '.join(others)}; no counters: {reason}" if others else f"absent: {reason}"

"""A cell's profile in few figures, for tables, spreadsheets and MLflow. What is absent is left out, never 0."""

from __future__ import annotations

from dataclasses import replace

from evaluation.verdict import Evaluation, Profile

FIGURES = (
    "sol_score",
    "dram_percent",
    "compute_percent",
    "occupancy_percent",
    "kernel_launches",
    "fusion_ratio",
    "kernel_peak_bytes",
    "kernel_energy_mj",
    "device_time_us",
    "arithmetic_intensity",
)
BOTTLENECK = "bottleneck"
_OF_OPERATIONS = ("flops", "arithmetic_intensity")


def figures_of(grade: Evaluation | None) -> dict[str, float]:
    """Those of FIGURES that are known of a grade, in that order."""
    if grade is None or grade.profile is None:
        return {}
    metrics = believable(grade.profile).metrics
    return {key: metrics[key] for key in FIGURES if key in metrics}


def bottleneck_of(grade: Evaluation | None) -> str | None:
    """`memory`, `compute`, `launch` or `latency`; None where it is not known."""
    return None if grade is None or grade.profile is None else grade.profile.words.get(BOTTLENECK)


def believable(profile: Profile) -> Profile:
    """The same without the sum of operations where tensor cores were busy and nothing of theirs was counted."""
    metrics = profile.metrics
    busy_percent = metrics.get("pipe_tensor_percent", 0.0)
    counted = [value for key, value in metrics.items() if _is_tensor_count(key)]
    if not busy_percent or any(counted):
        return profile
    reason = f"tensor cores were {busy_percent:.1f} % busy, and none of their operations was counted"
    missing = next((why for key, why in profile.absent.items() if _is_tensor_count(key)), "")
    reason += f": {missing}" if missing else ""
    return replace(
        profile,
        metrics={key: value for key, value in metrics.items() if key not in _OF_OPERATIONS},
        absent=profile.absent | dict.fromkeys(_OF_OPERATIONS, reason),
    )


def _is_tensor_count(key: str) -> bool:
    return key.startswith("tensor_") and key.endswith("_flops")

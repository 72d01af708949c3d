"""A cell's profile in few figures, for tables, spreadsheets and MLflow. What is absent is left out, never 0."""

from __future__ import annotations

from evaluation.verdict import Evaluation

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


def figures_of(grade: Evaluation | None) -> dict[str, float]:
    """Those of FIGURES that are known of a grade, in that order."""
    if grade is None or grade.profile is None:
        return {}
    metrics = grade.profile.metrics
    return {key: metrics[key] for key in FIGURES if key in metrics}


def bottleneck_of(grade: Evaluation | None) -> str | None:
    """`memory`, `compute`, `launch` or `latency`; None where it is not known."""
    return None if grade is None or grade.profile is None else grade.profile.words.get(BOTTLENECK)

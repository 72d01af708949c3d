"""What a GPU was measured to do at most: the figures alone, which no torch is needed to read."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from evaluation.profile.specs import ridge_points
from evaluation.verdict import Conditions

DRAM_COPY, DRAM_READ, L2_READ = "dram_copy", "dram_read", "l2_read"
PRECISIONS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The best of the medians of several rounds of calls. Raises ValueError for figures that no measurement has."""

    per_s: float
    """Bytes or operations in a second; a copy counts what it reads and what it writes, a multiply-add two."""
    spread: float
    """How much longer the slowest round's median was than the fastest's, relative to it."""
    rounds: int
    calls: int
    """In all rounds together, warm-up not counted."""
    size: int
    """Bytes of the working set, or rows of the square matrices."""

    def __post_init__(self) -> None:
        sound = math.isfinite(self.per_s) and self.per_s > 0 and math.isfinite(self.spread) and self.spread >= 0
        if not sound or not 0 < self.rounds <= self.calls or self.size <= 0:
            raise ValueError(f"{self} is no measurement")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRoofline:
    """One GPU under one version of torch and of the driver. It may stand where a table of peaks does.

    Raises ValueError without both figures of DRAM, or for names that nobody knows.
    """

    device_name: str
    uuid: str
    torch: str
    driver: str
    """Empty where NVML does not tell it."""
    bandwidths: dict[str, Rate]
    """Bytes per second: `dram_copy`, `dram_read`, `l2_read`."""
    operations: dict[str, Rate]
    """Of matrix products with accumulation in fp32 (int32 for int8), by precision: the fastest that torch's libraries
    know, so at fp64 too by tensor cores where there are such."""
    absent: dict[str, str] = field(default_factory=dict)
    """What could not be measured, and why."""
    conditions: list[Conditions] = field(default_factory=list)
    """Before and right after measuring; none where NVML tells nothing."""
    wall_s: float

    def __post_init__(self) -> None:
        if not {DRAM_COPY, DRAM_READ} <= self.bandwidths.keys() <= {DRAM_COPY, DRAM_READ, L2_READ}:
            raise ValueError(f"a roofline of the bandwidths {sorted(self.bandwidths)} is none")
        if not self.operations.keys() <= set(PRECISIONS):
            raise ValueError(f"a roofline of the precisions {sorted(self.operations)} is none")

    @property
    def dram_bandwidth_bytes_s(self) -> float:
        """The better one of copying and reading."""
        return max(self.bandwidths[kind].per_s for kind in (DRAM_COPY, DRAM_READ))

    @property
    def peak_flops(self) -> dict[str, float]:
        """Operations per second by precision, in the order of PRECISIONS."""
        return {precision: self.operations[precision].per_s for precision in PRECISIONS if precision in self.operations}

    @property
    def ridge_points(self) -> dict[str, float]:
        """Operations per byte of DRAM traffic, by precision."""
        return ridge_points(self.dram_bandwidth_bytes_s, self.peak_flops)

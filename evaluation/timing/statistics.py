"""From block times to a latency and a speed-up, with intervals that hold on a real machine.

The speed-up is the median over pairs of log(reference / candidate). Both blocks of a pair are neighbours in time and
alternate in order, so a drift of the machine cancels or changes sign from pair to pair, and the median stays. Its
interval is made of order statistics: no shape of noise is assumed, and outliers count but do not stretch it. Where near
pairs lie on the same side of the median more often than chance has it, fewer independent pairs are counted.
On top comes what no number of pairs can show: two processes with the same code differ by the placement of memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluation.verdict import Latency

PROCESS_SPREAD = 0.015
"""Standard deviation of log(time) ratios between two processes with the same code. Of 36 pairs of equal arms, on three
problems and a busy machine, it was 2.2 %, of which about half is the noise of the blocks."""
PROCESS_SPREAD_WEIGHT = 4
"""How many observed process pairs that figure is worth beside those of the measurement itself: machines differ."""
MIN_SAMPLES = 4
"""Samples whose range holds the median well enough (in 7 of 8 cases) to be an interval at all."""
_Z = 1.96

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def relative_half_width(self) -> float:
        """Half the interval's width, relative to the estimate."""
        return (self.high - self.low) / 2 / self.value


def latency(samples_us: Sequence[float]) -> Latency:
    """Summary of one arm's blocks, in their order of measuring; at least one, no outlier dropped."""
    samples = np.asarray(samples_us, dtype=np.float64)
    median = median_interval(samples)
    return Latency(
        median_us=median.value,
        low_us=max(median.low, 0.0),
        high_us=median.high,
        mean_us=float(samples.mean()),
        std_us=float(samples.std(ddof=1)) if samples.size > 1 else 0.0,
        samples_us=[float(sample) for sample in samples],
    )


def speedup(
    groups: Sequence[tuple[Sequence[float], Sequence[float]]],
    process_spread: float = PROCESS_SPREAD,
    weight: int = PROCESS_SPREAD_WEIGHT,
) -> Interval:
    """Time of the reference over time of the candidate, all positive, in any one unit.

    Each group is one pair of processes: the reference's block times and the candidate's, paired and in order. `weight`:
    how many observed process pairs `process_spread` is worth beside these. Raises ValueError when a group's two lists
    differ in length.
    """
    medians = [median_interval(_log_ratios(reference, candidate)) for reference, candidate in groups]
    values = np.array([median.value for median in medians])
    scatter = float(((values - values.mean()) ** 2).sum())
    degrees = weight + len(values) - 1
    pooled = (weight * process_spread**2 + scatter) / degrees
    # Processes that visibly differ more than usual are not made to look usual.
    between = max(pooled, scatter / max(len(values) - 1, 1))
    process = _student(degrees) * math.sqrt(between / len(values))
    centre = float(values.mean())
    below = math.sqrt(sum((median.value - median.low) ** 2 for median in medians)) / len(medians)
    above = math.sqrt(sum((median.high - median.value) ** 2 for median in medians)) / len(medians)
    return Interval(
        value=math.exp(centre),
        low=math.exp(centre - math.hypot(below, process)),
        high=math.exp(centre + math.hypot(above, process)),
    )


def median_interval(samples: Floats) -> Interval:
    """Median of a series, in order of measuring, and the order statistics that hold the true one in 95 % of cases.

    Where there are too few samples for that, the interval is the range, moved out by itself on both sides.
    """
    ordered = np.sort(samples)
    count = ordered.size
    rank = count * (0.5 - _Z / 2 / math.sqrt(_independent(samples)))
    if rank < 0:
        spread = float(ordered[-1] - ordered[0])
        low, high = float(ordered[0]) - spread, float(ordered[-1]) + spread
    else:
        low, high = float(ordered[math.floor(rank)]), float(ordered[count - 1 - math.floor(rank)])
    return Interval(value=float(np.median(ordered)), low=low, high=high)


def _independent(samples: Floats) -> float:
    """How many independent samples a series is worth, by how often near ones lie on one side of its median.

    n / (1 + 2 * the largest partial sum of the signs' autocorrelations over sqrt(n) lags), but not under MIN_SAMPLES.
    """
    signs = np.sign(samples - np.median(samples))
    count = signs.size
    total = largest = 0.0
    for lag in range(1, math.isqrt(count) + 1):
        # Around their own median independent signs correlate by -1 / n.
        total += float((signs[lag:] * signs[:-lag]).sum()) / count + 1 / count
        largest = max(largest, total)
    return max(count / (1 + 2 * largest), min(count, MIN_SAMPLES))


def _log_ratios(reference: Sequence[float], candidate: Sequence[float]) -> Floats:
    if len(reference) != len(candidate):
        raise ValueError(f"{len(reference)} blocks of the reference cannot be paired with {len(candidate)}")
    ratios: Floats = np.log(np.asarray(reference, dtype=np.float64) / np.asarray(candidate, dtype=np.float64))
    return ratios


def _student(degrees: int) -> float:
    """97.5 % quantile of Student's t, within 1 % from 4 degrees of freedom on."""
    return 1.96 + 2.37 / degrees + 2.82 / degrees**2

"""Statistics over cells. Every figure that a report quotes has its formula, and the formula's source, here."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

CAP = 100.0
"""Speed-ups are kept within [1/CAP, CAP] in a geometric mean, so that one absurd reference cannot carry it."""
RESAMPLES = 1000
_Z_95 = 1.959963984540054
"""0.975 quantile of the standard normal distribution."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval; without one where the data cannot give it."""

    value: float
    low: float | None = None
    high: float | None = None


def wilson(successes: int, trials: int) -> Estimate:
    """Share of successes with Wilson's score interval. `trials` is at least 1.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927) 209-212:
    (p + z²/2n ± z·sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n). It holds for small n and for shares of 0 and 1, and takes
    the trials as independent.
    """
    share, square = successes / trials, _Z_95**2
    centre = share + square / (2 * trials)
    half = _Z_95 * math.sqrt(share * (1 - share) / trials + square / (4 * trials**2))
    scale = 1 + square / trials
    return Estimate(share, max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale))


def capped_geometric_mean(speedups: Sequence[float]) -> float:
    """exp(mean(log s)) with every s kept within [1/CAP, CAP]; ratios average by their logarithms.

    P. J. Fleming, J. J. Wallace, How not to lie with statistics, CACM 29 (1986) 218-221.
    """
    return math.exp(statistics.fmean(math.log(min(CAP, max(1 / CAP, value))) for value in speedups))


def by_problem(statistic: Callable[[Sequence[float]], float], groups: Mapping[str, Sequence[float]]) -> Estimate:
    """`statistic` over all values with its percentile bootstrap interval; whole problems are resampled.

    Cells of one problem resemble each other, so they are drawn together: A. C. Davison, D. V. Hinkley, Bootstrap
    Methods and their Application (1997), section 3.8. With one problem there is nothing to resample and no interval.
    `groups` has at least one value. The generator is seeded, so a report made twice is the same.
    """
    clusters = [list(values) for values in groups.values() if values]
    value = statistic([item for cluster in clusters for item in cluster])
    if len(clusters) < 2:
        return Estimate(value)
    generator = random.Random(0)
    replicates = sorted(
        statistic([item for cluster in generator.choices(clusters, k=len(clusters)) for item in cluster])
        for _ in range(RESAMPLES)
    )
    return Estimate(value, replicates[int(0.025 * RESAMPLES)], replicates[int(0.975 * RESAMPLES) - 1])


def sum_if_known(values: Sequence[float | None]) -> float | None:
    """The sum, or None when a part is unknown: a sum of the known parts would pass for the whole."""
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total

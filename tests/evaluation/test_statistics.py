import math

import numpy as np
import pytest

from evaluation.serialize import to_plain
from evaluation.timing.statistics import PROCESS_SPREAD, latency, median_interval, speedup

RUNS = 400


def noise(generator, kind, blocks):
    """log(time) of 2 * `blocks` neighbouring blocks in the order of measuring, then the pairs' log ratios (B C C B)."""
    slots = generator.normal(0, 0.03, 2 * blocks)
    if "drift" in kind:
        slots += generator.normal(0, 0.1) * np.linspace(0, 1, 2 * blocks)
    if "walk" in kind:
        slots += np.cumsum(generator.normal(0, 0.01, 2 * blocks))
    if "lognormal" in kind:
        slots += np.exp(generator.normal(-4, 1, 2 * blocks))
    if "outliers" in kind:
        slots += (generator.random(2 * blocks) < 0.08) * generator.exponential(0.5, 2 * blocks)
    pairs = slots.reshape(blocks, 2)
    ratios = (pairs[:, 0] - pairs[:, 1]) * np.where(np.arange(blocks) % 2, -1, 1)
    if "sticky" in kind:
        # One process is slow for a while, the other is not.
        state = 0.0
        for index in range(blocks):
            state = 0.6 * state + generator.normal(0, 0.03)
            ratios[index] += state
    return ratios + generator.normal(0, PROCESS_SPREAD)


@pytest.mark.parametrize("blocks", [12, 24, 60])
@pytest.mark.parametrize("kind", ["quiet", "drift outliers", "lognormal drift", "walk outliers", "sticky outliers"])
def test_equal_arms_come_out_equal_as_often_as_promised(kind, blocks):
    generator = np.random.default_rng(blocks)
    held = 0
    for _ in range(RUNS):
        interval = speedup([(np.exp(noise(generator, kind, blocks)), np.ones(blocks))])
        held += interval.low <= 1 <= interval.high
    assert held / RUNS >= (0.90 if "sticky" in kind else 0.935)


@pytest.mark.parametrize("kind", ["quiet", "drift outliers", "walk outliers"])
def test_stopping_at_a_narrow_interval_keeps_the_promise(kind):
    generator = np.random.default_rng(7)
    held = 0
    for _ in range(RUNS):
        ratios = noise(generator, kind, 60)
        for blocks in range(12, 61, 2):
            interval = speedup([(np.exp(ratios[:blocks]), np.ones(blocks))])
            if interval.relative_half_width <= 0.05:
                break
        held += interval.low <= 1 <= interval.high
    assert held / RUNS >= 0.935


def test_two_levels_cover_offsets_between_processes():
    generator = np.random.default_rng(3)
    held, widths = 0, []
    for _ in range(RUNS):
        groups = []
        for _ in range(5):
            offset = generator.normal(0, 0.03)
            groups.append((np.exp(offset + noise(generator, "quiet", 12)), np.ones(12)))
        interval = speedup(groups)
        held += interval.low <= 1 <= interval.high
        widths.append(interval.relative_half_width)
    assert held / RUNS >= 0.92
    assert np.median(widths) < 0.08


def test_the_estimate_is_the_ratio_and_outliers_do_not_move_it():
    generator = np.random.default_rng(1)
    candidate = 10 * np.exp(generator.normal(0, 0.01, 30))
    reference = 2 * candidate * np.exp(generator.normal(0, 0.01, 30))
    clean = speedup([(reference, candidate)])
    assert clean.value == pytest.approx(2, rel=0.01) and clean.low < clean.value < clean.high
    reference[[3, 9]] *= 50
    spoiled = speedup([(reference, candidate)])
    assert spoiled.value == pytest.approx(2, rel=0.02) and spoiled.relative_half_width < 0.05


def test_process_spread_bounds_the_interval_from_below():
    interval = speedup([(np.full(1000, 3.0), np.full(1000, 3.0))])
    assert interval.relative_half_width == pytest.approx(2.776 * PROCESS_SPREAD, rel=0.02)


def test_correlated_samples_count_for_less():
    generator = np.random.default_rng(5)
    white = generator.normal(0, 1, 200)
    waves = np.repeat(white[:20], 10)
    width = lambda x: median_interval(x).high - median_interval(x).low  # noqa: E731
    assert width(waves) > 2 * width(white)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_samples_give_a_wide_interval(count):
    samples = np.arange(1.0, count + 1)
    interval = median_interval(samples)
    assert interval.low <= samples.min() and interval.high >= samples.max()
    if count > 1:
        assert interval.high - interval.low == 3 * (count - 1)


def test_latency_keeps_every_sample():
    summary = latency([5.0, 1.0, 2.0, 3.0, 100.0, 4.0, 4.5])
    assert summary.median_us == 4.0 and summary.mean_us == pytest.approx(119.5 / 7)
    assert summary.samples_us == [5.0, 1.0, 2.0, 3.0, 100.0, 4.0, 4.5]
    assert 0 <= summary.low_us <= summary.median_us <= summary.high_us
    to_plain(latency([7.0]))
    assert latency([7.0]).std_us == 0.0


def test_unpaired_blocks_are_refused():
    with pytest.raises(ValueError, match="3 blocks"):
        speedup([([1.0] * 3, [1.0] * 2)])


def test_repeating_gives_the_same_interval():
    generator = np.random.default_rng(2)
    groups = [(np.exp(generator.normal(0, 0.1, 14)), np.ones(14))]
    assert speedup(groups) == speedup(groups)
    assert math.isfinite(speedup(groups).high)

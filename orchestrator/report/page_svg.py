"""Pictures drawn as inline SVG; colours come from page.css, so that they follow the dark mode."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from evaluation.verdict import EndToEnd, Latency, Timing
from orchestrator.report.page_format import duration_interval, significant, speedup, speedup_interval, time_unit
from orchestrator.report.page_html import visible

WIDTH = 360
_LEFT, _RIGHT = 8.0, WIDTH - 8.0


@dataclass(frozen=True, slots=True)
class LogAxis:
    """Maps [low, high] to [start, end] by logarithm; both bounds are positive."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Return the coordinate of `value`, kept inside the axis."""
        share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return self.start + min(1.0, share) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return two to six round values inside the axis: powers of ten with 1, 2 and 5, or even steps if narrow."""
        exponents = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for factors in ((1,), (1, 3), (1, 2, 5)):
            found = [factor * 10.0**power for power in exponents for factor in factors]
            found = [value for value in found if self.low <= value <= self.high]
            if len(found) >= 3:
                return found[:: math.ceil(len(found) / 6)]
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / 2))
        step *= next((factor for factor in (5, 2) if (self.high - self.low) / (factor * step) >= 2), 1)
        first = math.ceil(self.low / step)
        return [index * step for index in range(first, math.floor(self.high / step) + 1)][:6]


def axis_around(values: Sequence[float], start: float, end: float, margin: float = 1.05) -> LogAxis:
    """Make an axis that holds all `values` (positive, at least one) with a factor of `margin` on both sides."""
    return LogAxis(min(values) / margin, max(values) * margin, start, end)


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> Markup:
    """Return one line of escaped text at (x, y)."""
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}" class="{}">{}</text>').format(
        x, y, anchor, kind, visible(words)
    )


def line(ends: tuple[float, float, float, float], kind: str) -> Markup:
    """Return a line from (x1, y1) to (x2, y2)."""
    return Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>').format(*ends, kind)


def polyline(points: Sequence[tuple[float, float]], kind: str) -> Markup:
    """Return a line through `points`."""
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return Markup('<polyline points="{}" class="{}"/>').format(places, kind)


def rect(box: tuple[float, float, float, float], kind: str, title: str = "") -> Markup:
    """Return a rectangle at (x, y) of a width and a height, with a tooltip where there is a title."""
    tip = Markup("<title>{}</title>").format(visible(title)) if title else Markup("")
    return Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="{}">{}</rect>').format(
        *box, kind, tip
    )


def dot(x: float, y: float, kind: str, title: str = "", radius: float = 3.0) -> Markup:
    """Return a dot, with a tooltip where there is a title."""
    tip = Markup("<title>{}</title>").format(visible(title)) if title else Markup("")
    return Markup('<circle cx="{:.1f}" cy="{:.1f}" r="{}" class="{}">{}</circle>').format(x, y, radius, kind, tip)


def picture(height: float, label: str, parts: Sequence[Markup], kind: str = "") -> Markup:
    """Wrap `parts` as a picture of WIDTH x `height` that scales with the page."""
    return Markup('<svg viewBox="0 0 {} {:.0f}" role="img" aria-label="{}"{}>{}</svg>').format(
        WIDTH, height, visible(label), Markup(' class="{}"').format(kind) if kind else "", Markup("").join(parts)
    )


def ruler(axis: LogAxis, y: float, labels: dict[float, str]) -> list[Markup]:
    """Draw a horizontal axis at height `y` with the given labels under its ticks."""
    parts = [line((axis.start, y, axis.end, y), "axis")]
    for value, words in labels.items():
        x = axis.place(value)
        anchor = "start" if x < axis.start + 15 else "end" if x > axis.end - 15 else "middle"
        parts += [line((x, y, x, y + 4), "axis"), text(x, y + 15, words, anchor, "small")]
    return parts


def samples_picture(timing: Timing | EndToEnd, what: str = "") -> Markup:
    """Draw the blocks of both arms on one logarithmic axis: dots, quartile box, median, interval of the median.

    `what` says which time it is, where there are several.
    """
    arms = (("reference", timing.reference), ("candidate", timing.candidate))
    everything = [value for _, arm in arms for value in [*arm.samples_us, arm.low_us, arm.high_us] if value > 0]
    axis = axis_around(everything, _LEFT, _RIGHT, 1.02)
    parts: list[Markup] = []
    for row, (name, arm) in enumerate(arms):
        parts += _strip(axis, 8 + 58.0 * row, (name, what), arm)
    unit, size = time_unit([timing.reference.median_us])
    label = f"Latency of each block{f', {what}' if what else ''}, reference above candidate"
    labels = {value: f"{significant(value / size, 3)} {unit}" for value in axis.ticks()}
    parts += ruler(axis, 126, labels)
    return picture(146, label, parts)


def _strip(axis: LogAxis, top: float, names: tuple[str, str], arm: Latency) -> list[Markup]:
    name = names[0]
    title = ", ".join(part for part in names if part)
    parts = [text(_LEFT, top + 8, f"{title}  {duration_interval(arm.median_us, arm.low_us, arm.high_us)}")]
    for index, value in enumerate(arm.samples_us):
        # Golden-ratio spacing spreads the dots evenly, and the same record always gives the same picture.
        parts.append(dot(axis.place(value), top + 18 + 20 * (index * 0.618034 % 1), f"sample {name}", radius=1.8))
    if len(arm.samples_us) >= 2:
        first, _, third = statistics.quantiles(arm.samples_us, n=4, method="inclusive")
        left, right = axis.place(first), axis.place(third)
        parts.append(
            Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="24" class="box {}"/>').format(
                left, top + 16, max(right - left, 0.5), name
            )
        )
    median = axis.place(arm.median_us)
    parts.append(line((median, top + 14, median, top + 42), f"median {name}"))
    parts.append(line((axis.place(arm.low_us), top + 44, axis.place(arm.high_us), top + 44), f"interval {name}"))
    return parts


def turns_picture(points: Sequence[tuple[int, str, float | None, float | None]]) -> Markup:
    """Draw (turn, status, latency in us, speed-up) of every tool's verdict over the turns; a cross where it failed."""
    speedups = [gain for _, _, _, gain in points if gain is not None and gain > 0]
    first_turn, last_turn = min(turn for turn, *_ in points), max(turn for turn, *_ in points)
    span = last_turn - first_turn + 1
    scale = axis_around([1.0, *speedups], 118, 14, 1.25)
    width = (_RIGHT - 40) / span
    one = scale.place(1.0)
    parts = [line((36, one, _RIGHT, one), "unity"), line((36, 14, 36, 118), "axis")]
    parts += [text(33, scale.place(tick) + 4, f"{significant(tick, 2)}x", "end", "small") for tick in scale.ticks()]
    for turn in range(first_turn, last_turn + 1, math.ceil(span / 12)):
        parts.append(text(40 + width * (turn - first_turn + 0.5), 150, str(turn), "middle", "small"))
    seen: dict[int, int] = {}
    totals = {turn: sum(other == turn for other, *_ in points) for turn, *_ in points}
    for turn, status, latency_us, gain in points:
        seen[turn] = seen.get(turn, 0) + 1
        x = 40 + width * (turn - first_turn + seen[turn] / (totals[turn] + 1))
        if gain is None or gain <= 0:
            good = status in ("PASSED", "UNSTABLE_TIMING")
            parts.append(text(x, 133, "✓" if good else "✗", "middle", "good" if good else "bad"))
            continue
        title = f"turn {turn}: {speedup(gain)}" + ("" if latency_us is None else f", {significant(latency_us)} µs")
        parts.append(dot(x, scale.place(gain), "candidate", title))
    return picture(154, "Speed-up of each verdict by turn", parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedupDot:
    """One cell's speed-up with its interval, and the words of its tooltip."""

    speedup: float
    low: float
    high: float
    title: str
    baseline: bool


def speedups_picture(rows: Sequence[tuple[str, Sequence[SpeedupDot]]]) -> Markup:
    """Draw one group of dots per problem on a logarithmic axis with a line at 1. `rows` has at least one dot."""
    every = [value for _, dots in rows for item in dots for value in (item.low, item.speedup, item.high)]
    axis = axis_around([1.0, *(value for value in every if value > 0)], _LEFT, _RIGHT, 1.1)
    parts: list[Markup] = []
    y = 4.0
    for name, dots in rows:
        parts.append(text(_LEFT, y + 11, name, kind="small"))
        y += 20
        for item in sorted(dots, key=lambda item: item.speedup):
            kind = "reference" if item.baseline else "candidate"
            title = f"{item.title}: {speedup_interval(item.speedup, item.low, item.high)}"
            parts.append(line((axis.place(item.low), y, axis.place(item.high), y), f"whisker {kind}"))
            parts.append(dot(axis.place(item.speedup), y, kind, title, radius=2.4))
            y += 6
        y += 4
    unity = axis.place(1.0)
    labels = {value: f"{significant(value, 2)}x" for value in axis.ticks()}
    parts = [line((unity, 0, unity, y), "unity"), *parts, *ruler(axis, y, labels)]
    return picture(y + 20, "Speed-up of every cell by problem", parts)

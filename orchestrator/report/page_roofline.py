"""The roofline: what memory and cores allow at most, by operations for each byte, and where kernels are below it.

S. Williams, A. Waterman, D. Patterson, Roofline, CACM 52 (2009): attainable FLOP/s = min(peak FLOP/s, intensity x peak
bandwidth). Intensity is in FLOP/byte of traffic with the device's memory. Both axes are logarithmic.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from evaluation.verdict import Profile
from orchestrator.report.page_format import significant
from orchestrator.report.page_labels import Board
from orchestrator.report.page_svg import LogAxis, dot, line, picture, polyline, text

_LEFT, _RIGHT, _TOP, _BOTTOM = 38.0, 352.0, 20.0, 222.0
_HEIGHT = 260
_MOST_LAUNCHES = 8
"""Launches that have a point of their own: the longest."""
_PEAK = re.compile("peak_(.+)_tflops")
_NO_OPERATIONS = (
    "no floating-point operation was counted: the arithmetic intensity is 0, for which a logarithmic axis has no place"
)


@dataclass(frozen=True, slots=True)
class Spot:
    """One point of the plot; `kind` is `kernel`, `earlier` or `launch`."""

    kind: str
    label: str
    intensity: float
    tflops: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofs:
    """What a device can do at most."""

    tb_per_s: float
    tflops: dict[str, float]
    """Peak -> precisions, in words, that have it."""
    ridge_precision: str

    @classmethod
    def of(cls, profile: Profile) -> Roofs | None:
        """Those that a profile names; None without the bandwidth."""
        if not profile.metrics.get("peak_gb_per_s"):
            return None
        found = ((_PEAK.fullmatch(key), value) for key, value in profile.metrics.items())
        peaks = {match[1]: value for match, value in found if match is not None and value > 0}
        tb_per_s, precision = profile.metrics["peak_gb_per_s"] / 1e3, profile.words.get("ridge_precision", "")
        ridge = profile.metrics.get("ridge_point")
        if precision and ridge:
            peaks.setdefault(precision, float(f"{ridge * tb_per_s:.6g}"))
        return cls(tb_per_s=tb_per_s, tflops=peaks, ridge_precision=precision)

    def lines(self) -> list[tuple[float, str]]:
        """(TFLOPS, its precisions in words), the highest first."""
        by_peak: dict[float, list[str]] = {}
        for precision, peak in self.tflops.items():
            by_peak.setdefault(peak, []).append(precision.upper())
        return [(peak, ", ".join(by_peak[peak])) for peak in sorted(by_peak, reverse=True)]

    def share(self, spot: Spot) -> str:
        """How near to the roof above it a point is, in words."""
        memory = self.tb_per_s * spot.intensity
        peak = self.tflops.get(self.ridge_precision, max(self.tflops.values(), default=math.inf))
        roof = "memory" if memory <= peak else self.ridge_precision.upper() or "the cores"
        return f"{significant(100 * spot.tflops / min(memory, peak), 3)} % of the roof of {roof}"


def roofline(profile: Profile, earlier: Sequence[tuple[str, Profile]] = ()) -> tuple[Markup | None, str]:
    """Return (the plot, or None; what is to be read beside it, or why there is none).

    `earlier` are profiles of the same cell, each with its turn in words, in their order.
    """
    roofs = Roofs.of(profile)
    if roofs is None:
        return None, _reason(profile, "peak_gb_per_s", "no peaks of this device are known")
    path = [Spot("earlier", label, *place) for label, one in earlier if (place := _place(one)) is not None]
    own = _place(profile)
    launches = list(_launches(profile))
    if own is not None:
        path.append(Spot("kernel", "this kernel", *own))
    if not path and not launches:
        return None, _why_no_point(profile)
    notes = [] if own is not None else [f"no point for this kernel: {_why_no_point(profile)}"]
    if len(earlier) > len(path) - (own is not None):
        lost = [label for label, one in earlier if _place(one) is None]
        notes.append(f"no point for turn {', '.join(lost)}: without a counted operation")
    drawn = _Plot(roofs, path, launches).drawn(profile.metrics.get("ridge_point"))
    return drawn, "; ".join([_legend(path, launches), *notes])


def _place(profile: Profile) -> tuple[float, float] | None:
    """(FLOP/byte, TFLOPS), if both are known and above 0."""
    metrics = profile.metrics
    intensity, flops, device_us = (metrics.get(key) for key in ("arithmetic_intensity", "flops", "device_time_us"))
    return (intensity, flops / device_us * 1e-6) if intensity and flops and device_us else None


def _why_no_point(profile: Profile) -> str:
    if profile.metrics.get("flops") == 0 or profile.metrics.get("arithmetic_intensity") == 0:
        return _NO_OPERATIONS
    return _reason(profile, "arithmetic_intensity", "operations or traffic with memory were not counted")


def _reason(profile: Profile, key: str, otherwise: str) -> str:
    return next((profile.absent[part] for part in (key, "flops", "roofline") if part in profile.absent), otherwise)


def _launches(profile: Profile) -> Iterator[Spot]:
    """A point for each of the longest launches of a forward that has several."""
    numbered = list(enumerate(profile.kernels, 1)) if len(profile.kernels) > 1 else []
    for number, kernel in sorted(numbered, key=lambda item: -item[1].device_time_us)[:_MOST_LAUNCHES]:
        if kernel.flops and kernel.dram_bytes and kernel.device_time_us > 0:
            yield Spot(
                "launch", f"#{number}", kernel.flops / kernel.dram_bytes, kernel.flops / kernel.device_time_us / 1e6
            )


def _legend(path: Sequence[Spot], launches: Sequence[Spot]) -> str:
    kinds = {spot.kind for spot in path}
    words = {
        "kernel": "filled: this kernel",
        "earlier": "numbers: the turn of an earlier profile, joined in order",
    }
    parts = [words[kind] for kind in words if kind in kinds]
    if launches:
        parts.append(f"#: {'the longest launches' if len(launches) == _MOST_LAUNCHES else 'launches'} of this forward")
    return "; ".join(parts)


class _Plot:
    def __init__(self, roofs: Roofs, path: Sequence[Spot], launches: Sequence[Spot]) -> None:
        self._roofs, self._path, self._launches = roofs, path, launches
        spots = [*path, *launches]
        peaks = [peak for peak, _ in roofs.lines()]
        ridges = [peak / roofs.tb_per_s for peak in peaks]
        near = [spot.intensity for spot in spots]
        high = max([*near, *ridges]) * 3
        # The names of the roofs stand left of their ridges, so the first of these is 2/5 of the way along at least.
        low = min([*(value / 2 for value in near), *((ridge * high**-0.4) ** (1 / 0.6) for ridge in ridges)])
        self._x = LogAxis(low, high, _LEFT, _RIGHT)
        reached = [spot.tflops for spot in spots]
        top = max([*peaks, *reached, roofs.tb_per_s * (max(near) if not peaks else 0)])
        bottom = min([*reached, roofs.tb_per_s * low])
        self._y = LogAxis(bottom / 2, top * 2.5, _BOTTOM, _TOP)
        self._board = Board(_LEFT, _RIGHT, _TOP, _BOTTOM)

    def drawn(self, ridge: float | None) -> Markup:
        """The whole plot."""
        parts = [line((_LEFT, _TOP, _LEFT, _BOTTOM), "axis"), text(2, 12, "TFLOPS", kind="tick")]
        for tick in self._y.ticks():
            y = self._y.place(tick)
            parts += [line((_LEFT, y, _RIGHT, y), "grid"), text(_LEFT - 4, y + 4, f"{tick:g}", "end", "tick")]
        parts.append(line((_LEFT, _BOTTOM, _RIGHT, _BOTTOM), "axis"))
        for tick in self._x.ticks():
            x = self._x.place(tick)
            parts.append(line((x, _BOTTOM, x, _BOTTOM + 4), "axis"))
            parts.append(text(x, _BOTTOM + 16, f"{tick:g}", "middle" if x < _RIGHT - 15 else "end", "tick"))
        parts.append(text(_RIGHT, _BOTTOM + 32, "arithmetic intensity, FLOP/byte", "end", "tick"))
        parts += [*self._ridge(ridge), *self._memory_roof(), *self._compute_roofs()]
        if len(self._path) > 1:
            places = [self._at(spot) for spot in self._path]
            parts.append(polyline(places, "path"))
            for start, end in itertools.pairwise(places):
                self._board.cross(start, end)
        return picture(_HEIGHT, self._label(), [*parts, *self._points()], "plot")

    def _at(self, spot: Spot) -> tuple[float, float]:
        return self._x.place(spot.intensity), self._y.place(spot.tflops)

    def _memory_roof(self) -> list[Markup]:
        """From where the line enters the plot to the highest roof of the cores, with its name along it."""
        roofs, x, y = self._roofs, self._x, self._y
        peak = max(roofs.tflops.values(), default=y.high)
        first = max(x.low, y.low / roofs.tb_per_s)
        last = min(x.high, peak / roofs.tb_per_s)
        start = (x.place(first), y.place(first * roofs.tb_per_s))
        end = (x.place(last), y.place(last * roofs.tb_per_s))
        angle = math.degrees(math.atan2(end[1] - start[1], end[0] - start[0]))
        words = f"memory {significant(roofs.tb_per_s * 1e3)} GB/s"
        lowest = min(roofs.tflops.values(), default=y.high)
        free = (x.place(lowest / roofs.tb_per_s), y.place(lowest)) if y.low < lowest else end
        middle = (0.55 * start[0] + 0.45 * free[0], 0.55 * start[1] + 0.45 * free[1])
        self._board.cross(start, end)
        name = Markup('<g transform="rotate({:.1f} {:.1f} {:.1f})">{}</g>').format(
            angle, *middle, text(middle[0], middle[1] - 5, words, "middle", "tick")
        )
        return [line((*start, *end), "roof"), name]

    def _compute_roofs(self) -> Iterator[Markup]:
        """Each with its name to the left, above the roof of memory, where no point can be."""
        lowest_y = -math.inf
        for peak, precisions in self._roofs.lines():
            x, y = self._x.place(peak / self._roofs.tb_per_s), self._y.place(peak)
            self._board.cross((x, y), (_RIGHT, y))
            yield line((x, y, _RIGHT, y), "roof")
            lowest_y = max(y + 4, lowest_y + 12)
            words = f"{precisions} {significant(peak)} TFLOPS"
            self._board.take_text(x - 7, lowest_y, words, "end")
            yield text(x - 7, lowest_y, words, "end", "tick")

    def _ridge(self, ridge: float | None) -> list[Markup]:
        if not ridge or not self._x.low < ridge < self._x.high:
            return []
        x, top = self._x.place(ridge), self._y.place(ridge * self._roofs.tb_per_s)
        precision = self._roofs.ridge_precision
        words = f"ridge {significant(ridge, 3)}" + (f" ({precision.upper()})" if precision else "")
        aside, anchor = (x + 4, "start") if x < (_LEFT + _RIGHT) / 2 else (x - 4, "end")
        self._board.take_text(aside, _BOTTOM - 5, words, anchor)
        self._board.cross((x, top), (x, _BOTTOM))
        return [line((x, top, x, _BOTTOM), "unity"), text(aside, _BOTTOM - 5, words, anchor, "tick")]

    def _points(self) -> Iterator[Markup]:
        """Those of the launches below, this kernel above all; a name only where it has room."""
        order = {"launch": 0, "earlier": 1, "kernel": 2}
        spots = sorted([*self._launches, *self._path], key=lambda spot: order[spot.kind])
        names = []
        for spot in spots:
            self._board.take_point(*self._at(spot))
        for spot in reversed(spots):
            place = self._board.room_for(*self._at(spot), spot.label, far=spot.kind == "kernel")
            if place is not None:
                names.append(text(*place[:2], spot.label, place[2], f"name {spot.kind}"))
        for spot in spots:
            yield dot(*self._at(spot), f"spot {spot.kind}", self._words(spot), 4.5 if spot.kind == "kernel" else 3.2)
        yield from names

    def _words(self, spot: Spot) -> str:
        name = {"earlier": f"turn {spot.label}", "launch": f"launch {spot.label}"}.get(spot.kind, spot.label)
        place = f"{significant(spot.intensity, 3)} FLOP/byte, {significant(spot.tflops, 3)} TFLOPS"
        return f"{name}: {place}, {self._roofs.share(spot)}"

    def _label(self) -> str:
        peaks = [f"{precisions} {significant(peak)} TFLOPS" for peak, precisions in self._roofs.lines()]
        roofs = ", ".join([f"memory {significant(self._roofs.tb_per_s * 1e3)} GB/s", *peaks])
        return f"Roofline plot. Roofs: {roofs}. " + ". ".join(self._words(spot) for spot in self._path)

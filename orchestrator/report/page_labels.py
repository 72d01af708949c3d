"""Finds room for the names of points, so that none lies on another name or point."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""

_CHAR, _ASCENT, _DESCENT = 6.4, 9.0, 3.0
"""Of the pictures' font, in a picture's units; a little more than it needs."""
_POINT, _APART = 4.0, 2.5
_ASIDE = (
    (7, 4, "start"), (-7, 4, "end"), (0, 16, "middle"), (0, -8, "middle"), (6, 14, "start"), (-6, 14, "end"),
    (6, -6, "start"), (-6, -6, "end"),
)  # fmt: skip
_FURTHER = (
    (0, 28, "middle"), (0, -20, "middle"), (12, 26, "start"), (-12, 26, "end"), (12, -18, "start"), (-12, -18, "end"),
    (-12, 40, "end"), (12, 40, "start"),
)  # fmt: skip


@dataclass(slots=True)
class Board:
    """The inside of a plot, and what is taken of it."""

    left: float
    right: float
    top: float
    bottom: float
    taken: list[Box] = field(default_factory=list)
    crossed: list[Box] = field(default_factory=list)
    """Where lines run: better without a name on them, but they do not make one unreadable."""

    def take_text(self, x: float, y: float, words: str, anchor: str) -> None:
        """A line of text at (x, y) is there."""
        self.taken.append(_box(x, y, words, anchor))

    def take_point(self, x: float, y: float) -> None:
        """A point is there."""
        self.taken.append((x - _POINT, y - _POINT, x + _POINT, y + _POINT))

    def cross(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """A line is there."""
        steps = max(1, round(math.dist(start, end) / 3))
        for step in range(steps + 1):
            x, y = (first + (last - first) * step / steps for first, last in zip(start, end, strict=True))
            self.crossed.append((x - 1, y - 1, x + 1, y + 1))

    def room_for(self, x: float, y: float, words: str, *, far: bool = False) -> tuple[float, float, str] | None:
        """(x, y, anchor) of a name beside the point at (x, y), taken from then on; None where there is no room.

        It may stand at some distance if it is `far`, because it says by itself what it is of.
        """
        edge = self.right - _APART - x
        at_edge = ((edge, 18, "end"), (edge, -8, "end"), (edge, 30, "end"), (edge, -20, "end"))
        places = (*_ASIDE, *(at_edge if edge < _CHAR * len(words) else ()), *_FURTHER) if far else _ASIDE
        for avoided in ([*self.taken, *self.crossed], self.taken):
            for dx, dy, anchor in places:
                left, top, right, bottom = _box(x + dx, y + dy, words, anchor)
                box = (left - _APART, top, right + _APART, bottom)
                if self._holds(box) and not any(_touch(box, other) for other in avoided):
                    self.taken.append(box)
                    return x + dx, y + dy, anchor
        return None

    def _holds(self, box: Box) -> bool:
        return box[0] >= self.left and box[1] >= self.top and box[2] <= self.right and box[3] <= self.bottom


def _box(x: float, y: float, words: str, anchor: str) -> Box:
    width = _CHAR * len(words)
    left = x - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
    return left, y - _ASCENT, left + width, y + _DESCENT


def _touch(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]

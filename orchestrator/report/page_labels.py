"""Finds room for the names of points, so that none lies on another name or point."""

from __future__ import annotations

from dataclasses import dataclass, field

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""

_CHAR, _ASCENT, _DESCENT = 6.4, 9.0, 3.0
"""Of the pictures' font, in a picture's units; a little more than it needs."""
_POINT = 4.0


@dataclass(slots=True)
class Board:
    """The inside of a plot, and what is taken of it."""

    left: float
    right: float
    top: float
    bottom: float
    taken: list[Box] = field(default_factory=list)

    def take_text(self, x: float, y: float, words: str, anchor: str) -> None:
        """A line of text at (x, y) is there."""
        self.taken.append(_box(x, y, words, anchor))

    def take_point(self, x: float, y: float) -> None:
        """A point is there."""
        self.taken.append((x - _POINT, y - _POINT, x + _POINT, y + _POINT))

    def take_along(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """A line is there."""
        for step in range(41):
            x, y = (first + (last - first) * step / 40 for first, last in zip(start, end, strict=True))
            self.taken.append((x - 1, y - 1, x + 1, y + 1))

    def room_for(self, x: float, y: float, words: str) -> tuple[float, float, str] | None:
        """(x, y, anchor) of a name beside the point at (x, y), which is taken from then on; None if there is no room."""
        for dx, dy, anchor in (
            (7, 4, "start"), (-7, 4, "end"), (0, 16, "middle"), (0, -8, "middle"), (6, 14, "start"), (-6, 14, "end"),
            (6, -6, "start"), (-6, -6, "end"), (0, 28, "middle"), (18, 22, "start"), (-18, 22, "end"),
        ):  # fmt: skip
            box = _box(x + dx, y + dy, words, anchor)
            if self._holds(box) and not any(_touch(box, other) for other in self.taken):
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

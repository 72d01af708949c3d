"""A rate that all processes of an experiment share, as moments in time that are booked one by one.

At `per_min` units a minute, moment k is at k * period seconds of Unix time. To book one is to create its file
exclusively, so no moment is given twice, a process that dies holds up nothing but the few moments that it had booked,
and nobody has to know who else is there. What nobody books is gone: there is no burst after a quiet time.
"""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path

MARGIN = 0.02
"""Moments are this much further apart than the rate asks, so that requests that leave late do not pass it."""
LATE_S = 1.0
"""Whoever leaves later than this after the moment books another."""
_HORIZON_S = 5.0
_PER_FOLDER = 256
_KEPT_S = 300.0
_TRIES_BEFORE_LISTING = 4


class Timeline:
    """One rate. One thread at a time may use it."""

    def __init__(self, directory: Path, per_min: float) -> None:
        self.period_s = 60.0 / per_min * (1.0 + MARGIN)
        self._directory = directory / f"{per_min:g}"
        self._next = 0

    def book(self, now: float, *, far: bool = False) -> float | None:
        """Book the next free moment; returns it as Unix seconds. None when none is free within a few seconds.

        `far` takes one however far it is, for what has been used already and must be made up for.
        """
        first = max(self._next, math.ceil(now / self.period_s))
        last = first + 1_000_000 if far else math.floor((now + max(_HORIZON_S, self.period_s)) / self.period_s)
        taken: set[int] = set()
        for tries, number in enumerate(range(first, last + 1)):
            if tries >= _TRIES_BEFORE_LISTING and (tries == _TRIES_BEFORE_LISTING or number % _PER_FOLDER == 0):
                taken = self._taken(number)
            self._next = number + 1
            if number not in taken and self._create(number):
                return number * self.period_s
        return None

    def _create(self, number: int) -> bool:
        path = self._path(number)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        except FileExistsError:
            return False
        except FileNotFoundError:
            self._begin_folder(path.parent)
            return self._create(number)
        return True

    def _begin_folder(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        oldest = int(folder.name) - math.ceil(_KEPT_S / self.period_s / _PER_FOLDER) - 1
        for other in self._directory.iterdir():
            if int(other.name) < oldest:
                shutil.rmtree(other, ignore_errors=True)  # another process may be at it too

    def _taken(self, number: int) -> set[int]:
        folder = self._path(number).parent
        return {int(name) for name in os.listdir(folder)} if folder.is_dir() else set()  # noqa: PTH208

    def _path(self, number: int) -> Path:
        return self._directory / str(number // _PER_FOLDER) / str(number)

"""How many requests may be under way at once over all processes: numbered seats, each held by one request.

Seat s is held by the file `<s>.<g>` with the highest g, and free when that is `<s>.<g>.free`. Taking it creates
`<s>.<g + 1>` by an exclusive hard link to the taker's card, which holds its name. A seat whose holder is dead is taken
the same way.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_SPREAD = 16


@dataclass(frozen=True, slots=True)
class Seat:
    """One that is held."""

    path: Path

    def release(self) -> None:
        """Let the next one in. A seat that others took over, because this process seemed dead, is theirs."""
        try:
            self.path.rename(f"{self.path}.free")
        except FileNotFoundError:
            return


class Seats:
    """The seats of one deployment. `card` is a file of this process that holds its member id. Threads may share it."""

    def __init__(self, directory: Path, card: Path) -> None:
        self._directory = directory
        self._card = card
        directory.mkdir(parents=True, exist_ok=True)

    def taken(self) -> int:
        """Requests under way, those of dead processes included."""
        return sum(not free for _, free in self._list().values())

    def take(self, allowed: int | None) -> Seat | None:
        """A seat below `allowed` (None: any), or None when all of them are held."""
        seats = self._list()
        held = {seat for seat, (_, free) in seats.items() if not free}
        numbers = range(allowed if allowed is not None else 2 * len(held) + _SPREAD)
        candidates = [seat for seat in numbers if seat not in held]
        random.shuffle(candidates)
        for seat in candidates:
            generation, _ = seats.get(seat, (0, True))
            if (taken := self._succeed(seat, generation, f"{seat}.{generation}.free")) is not None:
                return taken
        return None

    def evict(self, dead: Callable[[str], bool], allowed: int) -> Seat | None:
        """Take the seat of a holder of whom `dead(member id)` says so, or None."""
        for seat, (generation, free) in self._list().items():
            if seat >= allowed or free:
                continue
            name = f"{seat}.{generation}"
            try:
                holder = (self._directory / name).read_text(encoding="utf-8")
            except FileNotFoundError:
                continue
            if dead(holder) and (taken := self._succeed(seat, generation, name)) is not None:
                return taken
        return None

    def _succeed(self, seat: int, generation: int, before: str) -> Seat | None:
        path = self._directory / f"{seat}.{generation + 1}"
        try:
            os.link(self._card, path)
        except FileExistsError:
            return None
        if self._list()[seat][0] > generation + 1:  # what was listed is long gone, and this number was used before
            path.unlink()
            return None
        (self._directory / before).unlink(missing_ok=True)
        return Seat(path)

    def _list(self) -> dict[int, tuple[int, bool]]:
        """Seat -> (highest generation, whether it is free)."""
        found: dict[int, tuple[int, bool]] = {}
        for name in os.listdir(self._directory):  # noqa: PTH208
            seat, generation, *free = name.split(".")
            known = found.get(int(seat), (0, False))
            # Of `3.7` and `3.7.free`, seen together while one is renamed, the free one is the later.
            found[int(seat)] = max(known, (int(generation), bool(free)))
        return found

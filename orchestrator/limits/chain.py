"""A small state that many processes change one after the other, on a shared filesystem and without a lock.

State number n is the file `<n>.json`. Who wants to change it reads the latest, n, and creates n + 1 by an exclusive
hard link: of many exactly one succeeds, and the others begin again from what it wrote. Files are never changed or
deleted, so a process that was stopped in between cannot undo what came after. For states that change rarely: each
change is a file.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.store.files import write_new

State = dict[str, Any]

_STATE = re.compile(r"(\d+)\.json")
_FIRST_BACKOFF_S = 0.002
_LONGEST_BACKOFF_S = 0.2


class Chain:
    """The states of one folder, begun from `initial`. One thread at a time may use it."""

    def __init__(self, directory: Path, initial: State) -> None:
        self._directory = directory
        self._state = initial
        self._number = self._last_listed()
        if self._number:
            self._state = self._load(self._number)

    def read(self) -> State:
        """The latest state; not to be changed in place. Costs one failed open when nothing is new."""
        while True:
            try:
                self._state = self._load(self._number + 1)
            except FileNotFoundError:
                return self._state
            self._number += 1

    def update(self, change: Callable[[State], State | None]) -> State:
        """Replace the latest state by `change` of it; None leaves it. Returns the state that then holds.

        `change` may be called several times and must not change its argument.
        """
        backoff_s = _FIRST_BACKOFF_S
        while True:
            new = change(self.read())
            if new is None:
                return self._state
            if write_new(self._path(self._number + 1), json.dumps(new, separators=(",", ":"))):
                self._number, self._state = self._number + 1, new
                return new
            time.sleep(random.uniform(0.0, backoff_s))
            backoff_s = min(_LONGEST_BACKOFF_S, backoff_s * 2)

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:08d}.json"

    def _load(self, number: int) -> State:
        state: State = json.loads(self._path(number).read_text(encoding="utf-8"))
        return state

    def _last_listed(self) -> int:
        if not self._directory.is_dir():
            return 0
        found = (_STATE.fullmatch(path.name) for path in self._directory.iterdir())
        return max((int(match[1]) for match in found if match is not None), default=0)

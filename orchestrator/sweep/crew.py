"""How many agent loops and judges one worker runs."""

from __future__ import annotations

import os
import time

from orchestrator.sweep.judges import Judges

LOOPS_START = 4
LOOPS_MAX = 32
"""Loops at most when their number is chosen by measurement."""
BUSY_MAX = 0.7
"""Share of their time that judges, or this process, may be at work for more loops to be worth having."""
MEASURED_S = 5.0


def judges_limit(asked: int | None) -> int:
    """Judges of one worker: as asked, else half the cores that it may use, as builds and oracles take the others."""
    return asked if asked is not None else max(1, len(os.sched_getaffinity(0)) // 2)


class Growth:
    """A fixed number of loops, or one that grows by half while all loops are occupied and all else has time."""

    def __init__(self, fixed: int | None, judges: Judges) -> None:
        self._fixed = fixed
        self._judges = judges
        self._measure()

    def wanted(self, loops: int, at_work: int) -> int:
        """How many loops there should be, given how many there are and how many have a cell."""
        if self._fixed is not None:
            return self._fixed
        if loops < LOOPS_START:
            return LOOPS_START
        elapsed_s = time.monotonic() - self._at
        if elapsed_s < MEASURED_S:
            return loops
        judging = (self._judges.busy_s() - self._judged_s) / elapsed_s / self._judges.limit
        computing = (time.process_time() - self._computed_s) / elapsed_s
        self._measure()
        waiting = at_work >= loops and judging < BUSY_MAX and computing < BUSY_MAX
        return min(LOOPS_MAX, loops + max(1, loops // 2)) if waiting else loops

    def _measure(self) -> None:
        self._at, self._judged_s, self._computed_s = time.monotonic(), self._judges.busy_s(), time.process_time()

"""Workers that are ready before they are asked for: each has its sandbox, torch and its device's context."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor, wait

from evaluation.errors import EvaluatorError, JudgeLost
from evaluation.settings import LimitSettings
from evaluation.worker.handle import Worker, Zygote

_STARTED_TOGETHER = 3
"""More of them wait for each other in the driver, so that the first is ready no sooner than the last."""
_PAUSES_S = (0.5, 2.0)


class Pool:
    """Keeps workers ready. None are started while times are measured: `settle` comes before, `refill` after."""

    def __init__(self, zygote: Zygote, limits: LimitSettings) -> None:
        self._zygote = zygote
        self._limits = limits
        self._ready: list[Future[Worker]] = []
        """In the order in which they were begun."""
        self._starters = ThreadPoolExecutor(_STARTED_TOGETHER, thread_name_prefix="worker-start")

    def refill(self, size: int) -> None:
        """Begin to start what is missing; returns at once."""
        while len(self._ready) < size:
            self._ready.append(self._starters.submit(self._spawn))

    def settle(self, needed: int) -> None:
        """Wait until so many are ready and none is being started; the others are not begun."""
        wait(self._ready[:needed])
        kept = [future for future in self._ready if not future.cancel()]
        wait(kept)
        self._ready = kept

    def take(self) -> Worker:
        """The one that was begun first; a fresh one where none is. Raises EvaluatorError as `Zygote.spawn` does."""
        return self._ready.pop(0).result() if self._ready else self._spawn()

    def _spawn(self) -> Worker:
        """A device's memory is given back a while after who held it has ended."""
        for pause_s in _PAUSES_S:
            try:
                return self._zygote.spawn(self._limits)
            except JudgeLost:
                raise
            except EvaluatorError:
                time.sleep(pause_s)
        return self._zygote.spawn(self._limits)

    def close(self) -> None:
        """End those that nobody took."""
        self._starters.shutdown(wait=True)
        while self._ready:
            future = self._ready.pop()
            if future.exception() is None:
                future.result().close()

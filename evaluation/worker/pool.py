"""Workers that are ready before they are asked for: each has its sandbox, torch and its device's context."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait

from evaluation.errors import EvaluatorError, JudgeLost
from evaluation.settings import LimitSettings
from evaluation.worker.handle import Worker, Zygote

_STARTED_TOGETHER = 3
"""More of them wait for each other in the driver, so that the first is ready no sooner than the last."""
_SPARES_AFTER_S = 1.0
"""So that who goes on at once with the next evaluation need not wait until spares have started."""
_PAUSES_S = (0.5, 2.0)


class Pool:
    """Keeps workers ready. None are started while times are measured: `settle` comes before, `refill` after."""

    def __init__(self, zygote: Zygote, limits: LimitSettings) -> None:
        self._zygote = zygote
        self._limits = limits
        self._changing = threading.Lock()
        self._ready: list[Future[Worker]] = []
        """In the order in which they were begun."""
        self._starters = ThreadPoolExecutor(_STARTED_TOGETHER, thread_name_prefix="worker-start")
        self._spare_starter = ThreadPoolExecutor(1, thread_name_prefix="spare-start")
        self._later: threading.Timer | None = None

    def refill(self, needed: int, spare: int = 0) -> None:
        """Begin to start what is missing of those needed; a while later, one after the other, of the spare ones."""
        self._begin(self._starters, needed)
        self._forget_later()
        if spare:
            self._later = threading.Timer(_SPARES_AFTER_S, self._begin, (self._spare_starter, needed + spare))
            self._later.daemon = True
            self._later.start()

    def settle(self, needed: int) -> None:
        """Wait until so many are ready and none is being started; the others are not begun."""
        self._forget_later()
        wait(self._ready[:needed])
        kept = [future for future in self._ready if not future.cancel()]
        wait(kept)
        self._ready = kept

    def take(self) -> Worker:
        """The one that was begun first; a fresh one where none is. Raises EvaluatorError as `Zygote.spawn` does."""
        with self._changing:
            first = self._ready.pop(0) if self._ready else None
        return first.result() if first is not None else self._spawn()

    def close(self) -> None:
        """End those that nobody took."""
        self._forget_later()
        for starter in (self._starters, self._spare_starter):
            starter.shutdown(wait=True)
        while self._ready:
            future = self._ready.pop()
            if future.exception() is None:
                future.result().close()

    def _begin(self, starter: ThreadPoolExecutor, size: int) -> None:
        with self._changing:
            self._ready += [starter.submit(self._spawn) for _ in range(size - len(self._ready))]

    def _forget_later(self) -> None:
        later, self._later = self._later, None
        if later is not None:
            later.cancel()
            later.join()

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

"""The judges that the agent loops of one worker share: fewer than loops, because a loop mostly waits for its model."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from evaluation.client import Evaluator
from evaluation.disassembly.kernel_code import Disassembly
from evaluation.profile.rates import MeasuredRoofline
from evaluation.settings import EvaluationSettings
from evaluation.verdict import Evaluation, Solution, Stage
from problems.problem import Problem

WARM_UP_S = 2.0
"""Seconds from the first request to the start of the first judge, unless a kernel comes sooner."""


class Judges:
    """At most `limit` judge processes, started when needed. May be used by several threads."""

    def __init__(self, cache_dir: Path, log_path: Path, limit: int) -> None:
        self.limit = limit
        self.at_work = 0
        self._cache_dir = cache_dir
        self._log_path = log_path
        self._changed = threading.Condition()
        self._idle: list[Evaluator] = []
        self._count = 0
        self._closed = False
        self._warming: threading.Timer | None = None
        self._busy_s, self._since = 0.0, time.monotonic()

    def of(self, settings: EvaluationSettings) -> SharedJudge:
        """Whatever judge is free, for these settings."""
        return SharedJudge(self, settings)

    def warm_up(self, settings: EvaluationSettings) -> None:
        """Have a judge start in a moment if none runs, so that it wakes up while the model thinks.

        Not at once: where replies come at once, or the worker ends at once, six seconds of CPU would be for nothing.
        """
        with self._changed:
            if self._warming is None and not self._count and not self._closed:
                self._warming = threading.Timer(WARM_UP_S, self._start, [settings])
                self._warming.daemon = True
                self._warming.start()

    def _start(self, settings: EvaluationSettings) -> None:
        with self._changed:
            if self._count or self._closed:
                return
            judge = self._new(settings)
            judge.start()
            self._idle.append(judge)

    def evaluate(self, settings: EvaluationSettings, problem: Problem, solution: Solution, stage: Stage) -> Evaluation:
        """The verdict of a free judge. The wait for one is in `wall_s["queue"]`, which no budget is charged for."""
        with self._borrowed(settings) as (judge, waited_s):
            found = judge.evaluate(problem, solution, stage)
        return _with_wait(found, waited_s)

    def disassemble(self, settings: EvaluationSettings, problem: Problem, solution: Solution) -> Disassembly:
        """What a free judge finds; the wait is in its evaluation, as in `evaluate`."""
        with self._borrowed(settings) as (judge, waited_s):
            found = judge.disassemble(problem, solution)
        return dataclasses.replace(found, evaluation=_with_wait(found.evaluation, waited_s))

    def roofline(self, settings: EvaluationSettings) -> MeasuredRoofline:
        """The GPU's, by a free judge."""
        with self._borrowed(settings) as (judge, _):
            return judge.roofline()

    def busy_s(self) -> float:
        """Seconds that judges were at work, summed over them, since the start."""
        with self._changed:
            self._account()
            return self._busy_s

    @property
    def running(self) -> int:
        """Judges that were started and not ended."""
        return self._count

    def close(self) -> None:
        """End the idle judges now, the others when they have answered."""
        with self._changed:
            self._closed = True
            if self._warming is not None:
                self._warming.cancel()
            idle, self._idle = self._idle, []
            self._count -= len(idle)
        for judge in idle:
            judge.close()

    def __enter__(self) -> Judges:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _new(self, settings: EvaluationSettings) -> Evaluator:
        self._count += 1
        return Evaluator(settings, self._cache_dir, self._log_path)

    @contextmanager
    def _borrowed(self, settings: EvaluationSettings) -> Iterator[tuple[Evaluator, float]]:
        """A judge, and the seconds that it was waited for. One that raises is ended."""
        asked = time.monotonic()
        judge = self._acquire(settings)
        waited_s = time.monotonic() - asked
        sound = False
        try:
            yield judge, waited_s
            sound = True
        finally:
            self._release(judge, keep=sound)

    def _acquire(self, settings: EvaluationSettings) -> Evaluator:
        stale: Evaluator | None = None
        with self._changed:
            while (judge := self._idle_for(settings)) is None:
                if self._count < self.limit:
                    judge = self._new(settings)
                    break
                if self._idle:
                    stale = self._idle.pop(0)
                    self._count -= 1
                else:
                    self._changed.wait()
            self._account()
            self.at_work += 1
        if stale is not None:
            stale.close()
        return judge

    def _idle_for(self, settings: EvaluationSettings) -> Evaluator | None:
        for index in range(len(self._idle) - 1, -1, -1):
            if self._idle[index].settings == settings:
                return self._idle.pop(index)
        return None

    def _release(self, judge: Evaluator, *, keep: bool) -> None:
        with self._changed:
            self._account()
            self.at_work -= 1
            keep = keep and not self._closed
            if keep:
                self._idle.append(judge)
            else:
                self._count -= 1
            self._changed.notify()
        if not keep:
            judge.close()

    def _account(self) -> None:
        now = time.monotonic()
        self._busy_s += self.at_work * (now - self._since)
        self._since = now


def _with_wait(found: Evaluation, waited_s: float) -> Evaluation:
    queue_s = found.wall_s.get("queue", 0.0) + waited_s
    return dataclasses.replace(found, wall_s={**found.wall_s, "queue": queue_s})


class SharedJudge:
    """What an agent sees of the judges: one evaluator with its settings."""

    def __init__(self, judges: Judges, settings: EvaluationSettings) -> None:
        self.settings = settings
        self._judges = judges

    def evaluate(self, problem: Problem, solution: Solution, stage: Stage) -> Evaluation:
        """See `Evaluator.evaluate`."""
        return self._judges.evaluate(self.settings, problem, solution, stage)

    def disassemble(self, problem: Problem, solution: Solution) -> Disassembly:
        """See `Evaluator.disassemble`."""
        return self._judges.disassemble(self.settings, problem, solution)

    def roofline(self) -> MeasuredRoofline:
        """See `Evaluator.roofline`."""
        return self._judges.roofline(self.settings)

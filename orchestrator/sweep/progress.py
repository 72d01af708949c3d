"""What a person sees while a sweep runs: lines in a log, or one line that redraws itself on a terminal."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from types import TracebackType
from typing import TextIO

from orchestrator.limits.breaker import read_pause
from orchestrator.limits.limits import limits_root
from orchestrator.report.tables import row_speedup
from orchestrator.store.control import Control
from orchestrator.store.files import Tail
from orchestrator.store.index import Row, Standing
from orchestrator.store.job import Job
from orchestrator.store.store import Store
from orchestrator.sweep.status import eta_s

POLL_S = 0.5
QUIET_S = 30.0
"""Without a terminal: seconds after which a summary is written although nothing happened."""


class Progress:
    """Follows a job's journals and the index in a thread; costs what is new, however much is done."""

    def __init__(self, job: Job, store: Store, planned: int, done: dict[str, Row], stream: TextIO) -> None:
        self._events = Tail(job.workers_dir)
        self._index = Tail(store.index_dir)
        self._control = Control(store)
        self._limits = limits_root(store.root)
        self._planned = planned
        self._standing = Standing()
        self._standing.rows = dict(done)
        self._new: list[Row] = []
        self._running: dict[str, float] = {}
        self._setbacks: Counter[str] = Counter()
        self._stream = stream
        self._redraws = stream.isatty()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="progress", daemon=True)
        self._written_at = time.monotonic()

    def __enter__(self) -> Progress:
        self._index.poll()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._stop.wait(POLL_S):
            self._look()
        self._look()
        self._write_line(self._summary())

    def _look(self) -> None:
        for event in self._events.poll():
            self._take(event)
        for row in self._standing.take(self._index.poll()):
            self._new.append(row)
            done = f"{len(self._standing.rows)}/{self._planned}"
            self._write_line(f"[{done}] {row.uid}  {row.verdict}  {row_speedup(row)}")
        if self._redraws:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(f"\r\033[K{self._summary()[:width]}")
            self._stream.flush()
        elif time.monotonic() - self._written_at > QUIET_S:
            self._write_line(self._summary())

    def _take(self, event: dict[str, object]) -> None:
        uid = str(event["uid"])
        if event["event"] == "start":
            self._running[uid] = time.monotonic()
            return
        self._running.pop(uid, None)
        if event["event"] in ("failed", "parked", "quarantined"):
            self._setbacks[str(event["event"])] += 1
            self._write_line(f"attempt {event['attempt']} {event['event']}: {uid}: {event['cause']}")

    def _summary(self) -> str:
        rows = self._standing.rows
        passed = sum(row.verdict == "PASSED" for row in rows.values())
        parts = [f"{len(rows)}/{self._planned} done", f"{len(self._running)} running", f"{passed} passed"]
        parts += [f"{count} {word} attempts" for word, count in self._setbacks.items()]
        if (pause := self._control.paused()) is not None:
            parts.append(f"paused: {pause.by.lower()}: {pause.reason}")
        if (broken := read_pause(self._limits)) is not None:
            parts.append(f"paused: breaker: {broken.cause}")
        left_s = eta_s(self._new, self._planned - len(rows), len(self._running))
        if left_s is not None:
            parts.append(f"about {_duration(left_s)} left")
        return ", ".join(parts)

    def _write_line(self, text: str) -> None:
        self._stream.write(f"\r\033[K{text}\n" if self._redraws else f"{text}\n")
        self._stream.flush()
        self._written_at = time.monotonic()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"

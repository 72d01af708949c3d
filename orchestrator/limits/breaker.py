"""When a provider fails: how long its cell waits, and when the whole sweep pauses.

A failure here is one that the model's own retries did not mend. It parks the cell, which costs it neither a turn nor
a try. Many in a row, over all workers, pause the sweep: no worker takes a cell, until a person resumes it or one cell
that is let through now and then gets an answer.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from agents.errors import ProviderError
from orchestrator.limits.chain import Chain, State
from orchestrator.limits.clock import Clock, SystemClock
from orchestrator.limits.settings import LimitsSettings
from orchestrator.store.files import write_atomic

_FIRST_PARK_S = 30.0
_LONGEST_PARK_S = 1800.0
_LONGEST_PROBE_S = 3600.0
_ANSWERS_EVERY_S = 5.0
_CLOSED: State = {"cause": None, "at": 0.0, "probe_at": 0.0, "wait_s": 0.0, "probing": False}


def park_s(parked_before: int, retry_after_s: float | None = None) -> float:
    """Seconds until a parked cell is taken again: doubled each time up to half an hour, with jitter; never sooner than
    the provider asked."""
    longest = min(_LONGEST_PARK_S, _FIRST_PARK_S * 2.0 ** min(parked_before, 10))
    return (retry_after_s or 0.0) + random.uniform(0.5, 1.0) * longest


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """The sweep is paused."""

    cause: str
    at: float
    probe_at: float
    """Unix seconds, both; after the second one cell is let through."""


@dataclass(slots=True, kw_only=True)
class _Tally:
    """What one worker has seen, in its own file."""

    failed_at: list[float] = field(default_factory=list)
    answered_at: float = 0.0


class Breaker:
    """The breaker as one worker sees it; the worker's threads share it."""

    def __init__(self, root: Path, settings: LimitsSettings, who: str, clock: Clock) -> None:
        self._folder = root / "breaker" / "tallies"
        self._path = self._folder / f"{who}.json"
        self._settings = settings
        self._clock = clock
        self._chain = Chain(root / "breaker", _CLOSED)
        self._tally = _Tally()
        self._lock = threading.Lock()

    def paused(self) -> Pause | None:
        """Why no cell is to be taken, or None."""
        with self._lock:
            return _pause(self._chain.read())

    def may_take(self) -> bool:
        """Whether this worker may take a cell now. While the sweep is paused one cell is let through now and then."""
        if self.paused() is None:
            return True
        probing = False

        def probe(state: State) -> State | None:
            nonlocal probing
            now = self._clock.now()
            probing = state["cause"] is not None and now >= state["probe_at"]
            if not probing:
                return None
            return {**state, "probing": True, "probe_at": now + state["wait_s"]}

        with self._lock:
            state = self._chain.update(probe)
        return probing or state["cause"] is None

    def failed(self, error: ProviderError, parked_before: int) -> float:
        """Note that a provider gave no answer; returns the seconds for which the cell is parked."""
        with self._lock:
            now = self._clock.now()
            self._tally.failed_at = [*self._tally.failed_at, now][-self._settings.breaker_failures :]
            self._write()
            in_a_row, workers = self._in_a_row()
            if in_a_row >= self._settings.breaker_failures and workers >= 2:
                wait_s = self._settings.breaker_probe_s
                cause = f"{in_a_row} failures in a row of {workers} workers, the last: {error}"
                opened = {"cause": cause, "at": now, "probe_at": now + wait_s, "wait_s": wait_s, "probing": False}
                self._chain.update(lambda state: opened if state["cause"] is None else None)
            self._chain.update(lambda state: _probed_in_vain(state, now))
        return park_s(parked_before, error.retry_after_s)

    def answered(self) -> None:
        """Note that a provider gave an answer: failures before it no longer count, and a pause ends."""
        with self._lock:
            now = self._clock.now()
            if self._tally.failed_at or now - self._tally.answered_at > _ANSWERS_EVERY_S:
                self._tally = _Tally(answered_at=now)
                self._write()
            self._chain.update(lambda state: {**_CLOSED, "at": now} if state["cause"] is not None else None)

    def _in_a_row(self) -> tuple[int, int]:
        """(failures since anybody had an answer or the last pause ended, workers that had them)."""
        tallies = list(self._tallies())
        since = max([self._chain.read()["at"], *(tally.answered_at for tally in tallies)])
        counts = [sum(at > since for at in tally.failed_at) for tally in tallies]
        return sum(counts), sum(count > 0 for count in counts)

    def _tallies(self) -> Iterator[_Tally]:
        for path in self._folder.glob("*.json"):
            yield _Tally(**json.loads(path.read_text(encoding="utf-8")))

    def _write(self) -> None:
        write_atomic(self._path, json.dumps(asdict(self._tally)))


def read_pause(root: Path) -> Pause | None:
    """The pause of the experiment whose limits are kept under `root`, or None."""
    return _pause(Chain(root / "breaker", _CLOSED).read())


def lift_pause(root: Path, clock: Clock | None = None) -> Pause | None:
    """End the pause by hand; returns the one that stood."""
    now = (clock or SystemClock()).now()
    lifted: Pause | None = None

    def close(state: State) -> State | None:
        nonlocal lifted
        lifted = _pause(state)
        return {**_CLOSED, "at": now} if lifted is not None else None

    Chain(root / "breaker", _CLOSED).update(close)
    return lifted


def _probed_in_vain(state: State, now: float) -> State | None:
    if not state["probing"]:
        return None
    wait_s = min(_LONGEST_PROBE_S, state["wait_s"] * 2)
    return {**state, "probing": False, "wait_s": wait_s, "probe_at": now + wait_s}


def _pause(state: State) -> Pause | None:
    if state["cause"] is None:
        return None
    return Pause(cause=state["cause"], at=state["at"], probe_at=state["probe_at"])

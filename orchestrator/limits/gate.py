"""What every request to a provider passes, in all processes of an experiment: seat, money, tokens, turn."""

from __future__ import annotations

import hashlib
import math
import random
import re
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from agents.errors import Draining, ProviderCause, ProviderError
from agents.protocols import Permit, Usage
from agents.settings import ModelSettings
from orchestrator.limits.clock import Clock
from orchestrator.limits.members import Pulse
from orchestrator.limits.pace import Pace
from orchestrator.limits.purse import Purse, Reservation
from orchestrator.limits.seats import Seat, Seats
from orchestrator.limits.timeline import LATE_S, Timeline

_TOKEN_MOMENTS_PER_MIN = 300
_FIRST_POLL_S = 0.05
_LONGEST_POLL_S = 2.0
_EVICT_EVERY_S = 5.0
_RESTART_SPREAD_S = 1.0
_LONGEST_COOLDOWN_S = 120.0
"""A cooldown longer than this is not waited for: the cell makes room for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What the gates of one process have in common."""

    purse: Purse
    pulse: Callable[[str], Pulse]
    check: Callable[[], None]
    """Raises ExperimentSpent when the experiment's hours are used up."""
    answered: Callable[[], None]
    """Told of each reply."""
    card: Path
    """A file that holds this process's member id."""
    stop: threading.Event
    """Set when the process is to end."""
    clock: Clock

    def pause(self, seconds: float) -> None:
        """Sleep. Raises Draining as soon as the process is to end."""
        if self.clock.wait(self.stop, seconds):
            raise Draining("the process is to end, so no further request is sent")


class SharedGate:
    """The gate of one deployment: one model at one endpoint under one key. Threads share it."""

    def __init__(self, root: Path, model: ModelSettings, shared: Shared) -> None:
        self.name = deployment(model)
        folder = root / "deployments" / self.name
        self._shared = shared
        self._pace = Pace(folder / "pace", model.concurrent)
        self._seats = Seats(folder / "seats", shared.card)
        self._requests = Timeline(folder / "requests", model.requests_per_min) if model.requests_per_min else None
        self._tokens = _Tokens(folder / "tokens", model.tokens_per_min) if model.tokens_per_min else None
        self._lock = threading.Lock()
        self._door = threading.Lock()
        self._evicted_at = -math.inf

    def admit(self, feared: Usage) -> Permit:
        """Wait until a request that uses at most `feared` may be sent.

        Raises ExperimentSpent when a cap is reached, Draining when the process is to end, and ProviderError when the
        provider wants to be left alone for minutes.
        """
        shared = self._shared
        shared.check()
        with ExitStack() as undo:
            seat = self._sit()
            undo.callback(seat.release)
            reservation = shared.purse.reserve(self.name, feared, shared.pause, shared.pulse)
            undo.callback(shared.purse.cancel, reservation)
            prompt_tokens = self._await_tokens(feared)
            self._await_turn()
            undo.pop_all()
        return _SharedPermit(self, seat, reservation, prompt_tokens)

    def done(self, seat: Seat, reservation: Reservation, usage: Usage | None, prompt_tokens: int) -> None:
        """Settle a request that the provider did, or perhaps did."""
        self._shared.purse.settle(reservation, usage)
        seat.release()
        if usage is not None:
            self._shared.answered()
        if self._tokens is not None and usage is not None and usage.prompt_tokens is not None:
            used = usage.prompt_tokens + (usage.completion_tokens or 0)
            with self._lock:
                self._tokens.make_up(used - prompt_tokens, self._shared.clock.now())

    def refused(self, seat: Seat, reservation: Reservation, error: ProviderError, prompt_tokens: int) -> None:
        """Settle a request that the provider did not do, and heed what it says."""
        now = self._shared.clock.now()
        with self._lock:
            if error.cause is ProviderCause.RATE_LIMIT:
                self._pace.slow_down(now, error.retry_after_s, self._seats.taken())
            elif error.retry_after_s is not None:
                self._pace.cool_down(now, error.retry_after_s)
            if self._tokens is not None:
                self._tokens.make_up(-prompt_tokens, now)
        self._shared.purse.cancel(reservation)
        seat.release()

    def _sit(self) -> Seat:
        poll_s = _FIRST_POLL_S
        with self._door:  # of all threads that wait, one looks
            while True:
                self._shared.pause(0.0)
                self._cool()
                with self._lock:
                    allowed = self._pace.allowed(self._shared.clock.now())
                seat = self._seats.take(allowed) or self._evict(allowed)
                if seat is not None:
                    return seat
                self._shared.pause(random.uniform(0.2, 1.0) * poll_s)
                poll_s = min(_LONGEST_POLL_S, poll_s * 1.5)

    def _evict(self, allowed: int | None) -> Seat | None:
        now = self._shared.clock.monotonic()
        if allowed is None or now - self._evicted_at < _EVICT_EVERY_S:
            return None
        found = self._seats.evict(lambda member: self._shared.pulse(member) is not Pulse.ALIVE, allowed)
        if found is None:  # a worker that was killed leaves many, which are had one after the other
            self._evicted_at = now
        return found

    def _cool(self) -> None:
        while (left_s := self._cooldown_s()) > 0:
            if left_s > _LONGEST_COOLDOWN_S:
                raise ProviderError(
                    ProviderCause.RATE_LIMIT, f"{self.name} wants no request for {left_s:.0f} s", retry_after_s=left_s
                )
            self._shared.pause(left_s + random.uniform(0.0, _RESTART_SPREAD_S))

    def _cooldown_s(self) -> float:
        with self._lock:
            return self._pace.cooldown_until() - self._shared.clock.now()

    def _await_tokens(self, feared: Usage) -> int:
        """Wait until the prompt's tokens may be sent; returns their number. The reply's are made up for afterwards."""
        needed = feared.prompt_tokens or 0
        while self._tokens is not None:
            now = self._shared.clock.now()
            with self._lock:
                at = self._tokens.book(needed, now)
            if at is not None:
                self._shared.pause(at - now)
                break
            self._shared.pause(random.uniform(0.2, 1.0))
        return needed

    def _await_turn(self) -> None:
        clock = self._shared.clock
        while True:
            self._cool()
            if self._requests is None:
                return
            with self._lock:
                at = self._requests.book(clock.now())
            if at is None:
                self._shared.pause(random.uniform(0.2, 1.0) * LATE_S)
                continue
            self._shared.pause(at - clock.now())
            if clock.now() <= at + LATE_S and self._cooldown_s() <= 0:
                return


class _SharedPermit:
    def __init__(self, gate: SharedGate, seat: Seat, reservation: Reservation, prompt_tokens: int) -> None:
        self._gate = gate
        self._seat = seat
        self._reservation = reservation
        self._prompt_tokens = prompt_tokens

    def settle(self, usage: Usage) -> None:
        self._gate.done(self._seat, self._reservation, usage, self._prompt_tokens)

    def lost(self) -> None:
        self._gate.done(self._seat, self._reservation, None, self._prompt_tokens)

    def refused(self, error: ProviderError) -> None:
        self._gate.refused(self._seat, self._reservation, error, self._prompt_tokens)


class _Tokens:
    """Tokens a minute, booked in lots; what is left of a lot serves the next request of this process."""

    def __init__(self, directory: Path, per_min: int) -> None:
        moments = min(per_min, _TOKEN_MOMENTS_PER_MIN)
        self._lot = per_min / moments
        self._timeline = Timeline(directory, moments)
        self._left = 0.0
        self._last = 0.0

    def book(self, tokens: int, now: float) -> float | None:
        """When so many may be sent, as Unix seconds; None when not all can be booked yet, and then ask again."""
        while self._left < tokens:
            at = self._timeline.book(now)
            if at is None:
                return None
            self._left += self._lot
            self._last = at
        self._left -= tokens
        return max(now, self._last)

    def make_up(self, tokens: int, now: float) -> None:
        """Charge tokens that were used beyond the booked ones, or take back those that were not."""
        self._left -= tokens
        while self._left < 0:
            self._timeline.book(now, far=True)
            self._left += self._lot


def deployment(model: ModelSettings) -> str:
    """A name for what shares one rate: provider and model, endpoint, and the key's variable."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", model.litellm_model or model.name)
    facts = repr((model.litellm_model, model.base_url, model.api_key_env))
    return f"{readable}-{hashlib.sha256(facts.encode()).hexdigest()[:8]}"

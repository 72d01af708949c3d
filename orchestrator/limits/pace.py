"""What a provider's refusals teach: when to ask again, and how many requests at once it bears.

A rate signal (429) seen by one process makes all wait, and halves how many requests may be under way. That number then
grows again in a straight line, back to where it was in a minute, and on until the next signal or the declared ceiling:
additive increase, multiplicative decrease. It grows with time alone, so only signals are written down.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.limits.chain import Chain, State

_SHRINK = 0.5
_GROWTH_S = 60.0
"""Seconds in which the allowed number grows by what the last signal left of it."""
_EPISODE_S = 5.0
"""Signals that come within this of the first are answers to requests that were sent before it: one episode."""
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 60.0
_WORTH_WRITING_S = 0.5


class Pace:
    """The pace of one deployment. One thread at a time may use it."""

    def __init__(self, directory: Path, ceiling: int | None) -> None:
        self._ceiling = ceiling
        self._chain = Chain(directory, {"until": 0.0, "at": 0.0, "allowed": None, "streak": 0})

    def cooldown_until(self) -> float:
        """Unix seconds before which nobody may send; in the past when nothing is the matter."""
        return float(self._chain.read()["until"])

    def allowed(self, now: float) -> int | None:
        """Requests that may be under way at once; None is any number."""
        return self._allowed(self._chain.read(), now)

    def cool_down(self, now: float, seconds: float) -> None:
        """Have everybody wait, as the provider asked, without doubt about the rate."""

        def change(state: State) -> State | None:
            until = now + seconds
            return {**state, "until": until} if until > state["until"] + _WORTH_WRITING_S else None

        self._chain.update(change)

    def slow_down(self, now: float, retry_after_s: float | None, under_way: int) -> None:
        """Take a rate signal, seen while `under_way` requests were on their way."""

        def change(state: State) -> State | None:
            same_episode = now < max(state["at"] + _EPISODE_S, state["until"])
            streak = state["streak"] if same_episode else state["streak"] + 1
            if not same_episode and now > state["until"] + _LONGEST_WAIT_S:
                streak = 1
            wait_s = retry_after_s
            if wait_s is None:
                wait_s = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** min(streak - 1, 10))
            until = max(state["until"], now + wait_s)
            if same_episode:
                late = retry_after_s is not None and until > state["until"] + _WORTH_WRITING_S
                return {**state, "until": until} if late else None
            borne = min(filter(None, (self._allowed(state, now), under_way)), default=1)
            return {"until": until, "at": now, "allowed": max(1, int(borne * _SHRINK)), "streak": streak}

        self._chain.update(change)

    def _allowed(self, state: State, now: float) -> int | None:
        if state["allowed"] is None:
            return self._ceiling
        quiet_s = max(0.0, now - state["until"])
        grown = int(state["allowed"] * (1.0 + quiet_s / _GROWTH_S))
        return grown if self._ceiling is None else min(self._ceiling, grown)

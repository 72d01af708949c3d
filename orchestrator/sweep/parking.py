"""What holds a worker back: the provider's passing failures, once the model's own retries are used up, and caps."""

from __future__ import annotations

import random
from typing import Protocol

from agents.errors import ProviderError
from agents.models.open_gate import OpenGate
from agents.protocols import Gate
from agents.settings import ModelSettings

FIRST_S = 10.0
LONGEST_S = 600.0


class Paused(Protocol):
    """A pause that a policy has made."""

    @property
    def cause(self) -> str:
        """In words."""
        ...


class Policy(Protocol):
    """Told of each failure and each success, over all workers of a sweep."""

    def may_take(self) -> bool:
        """Whether a cell may be taken now."""
        ...

    def paused(self) -> Paused | None:
        """Why no cell is to be taken, if so."""
        ...

    def failed(self, error: ProviderError, parked_before: int) -> float:
        """Seconds until the cell may be taken again, after it was put aside `parked_before` times in a row."""
        ...

    def answered(self) -> None:
        """A cell was finished, so the provider answers."""
        ...


class Restraint(Protocol):
    """What one worker keeps to, shared by its loops; `orchestrator.limits` has what all workers keep to."""

    @property
    def breaker(self) -> Policy:
        """What is done about the provider's failures."""
        ...

    def gate(self, model: ModelSettings) -> Gate:
        """What every request of this model passes."""
        ...

    def check(self) -> None:
        """Raise ExperimentSpent when no cell may begin."""
        ...

    def note_device_s(self, uid: str, device_s: float) -> None:
        """The cell's candidates have run on the device for so many seconds, earlier processes' work included."""
        ...


class Patience:
    """Each cell waits twice as long as the last time, with jitter, or as the provider asks; nothing is shared."""

    def may_take(self) -> bool:
        """Always."""
        return True

    def paused(self) -> None:
        """Never."""
        return

    def failed(self, error: ProviderError, parked_before: int) -> float:
        """Between half and all of the delay, so that cells that failed together do not come back together."""
        delay_s = min(LONGEST_S, FIRST_S * 2.0 ** min(parked_before, 10))
        return max(error.retry_after_s or 0.0, delay_s * random.uniform(0.5, 1.0))

    def answered(self) -> None:
        """Nothing is kept."""


class NoLimits:
    """No rates and no caps; parked cells wait, each for itself."""

    def __init__(self, breaker: Policy | None = None) -> None:
        self.breaker: Policy = breaker or Patience()

    def gate(self, model: ModelSettings) -> Gate:  # noqa: ARG002
        """An open one."""
        return OpenGate()

    def check(self) -> None:
        """Always well."""

    def note_device_s(self, uid: str, device_s: float) -> None:
        """Nothing is kept."""

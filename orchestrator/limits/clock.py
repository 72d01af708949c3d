"""Time, in one place, so that a test can let an hour pass at once."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """What the limits ask of time."""

    def now(self) -> float:
        """Unix seconds; agrees with other hosts as far as their clocks are kept by NTP."""
        ...

    def monotonic(self) -> float:
        """Seconds of this process that nobody sets back."""
        ...

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Sleep, or wake up at once when `event` is set; returns whether it is."""
        ...


class SystemClock:
    """The machine's."""

    def now(self) -> float:
        """See Clock."""
        return time.time()

    def monotonic(self) -> float:
        """See Clock."""
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """See Clock."""
        return event.wait(max(0.0, seconds))

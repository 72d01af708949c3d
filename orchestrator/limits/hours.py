"""The hours of an experiment: those in which it was at work, and those in which candidates ran on the device.

Device seconds are noted by cell, as the sum over its trajectory so far, and a cell counts with the largest: so a cell
that is killed and goes on elsewhere is neither forgotten nor counted twice.
"""

from __future__ import annotations

import threading
from pathlib import Path

from orchestrator.limits.members import worked_s
from orchestrator.limits.settings import LimitsSettings
from orchestrator.store.files import Tail, append_line

_HOUR_S = 3600.0


class Hours:
    """The hours as one process sees them; each look costs what is new. Threads may share it."""

    def __init__(self, root: Path, member: str) -> None:
        self._members = root / "members"
        self._path = root / "device" / f"{member}.jsonl"
        self._tail = Tail(self._path.parent)
        self._device_s: dict[str, float] = {}
        self._lock = threading.Lock()

    def note(self, uid: str, device_s: float) -> None:
        """The cell's candidates have run on the device for so many seconds, earlier processes' work included."""
        with self._lock:
            append_line(self._path, {"cell": uid, "device_s": device_s})

    def device_s(self) -> float:
        """Seconds in which candidates ran on the device, over all cells."""
        with self._lock:
            for row in self._tail.poll():
                self._device_s[row["cell"]] = max(row["device_s"], self._device_s.get(row["cell"], 0.0))
            return sum(self._device_s.values())

    def worked_s(self) -> float:
        """Seconds in which at least one process was at work."""
        return worked_s(self._members)

    def spent(self, settings: LimitsSettings) -> str | None:
        """The sentence about a cap that is reached, or None."""
        for name, cap, measure in (
            ("gpu_hours", settings.gpu_hours, self.device_s),
            ("wall_hours", settings.wall_hours, self.worked_s),
        ):
            if cap is not None and (hours := measure() / _HOUR_S) >= cap:
                return f"limits.{name}={cap:g} is reached: {hours:.3f} h are used; raise the cap and run again to go on"
        return None

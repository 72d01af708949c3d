"""What a board draws while calls follow each other: its counter of energy, read beside them."""

from __future__ import annotations

import threading
import time
from typing import Self

from evaluation.device.nvml import Device

_LOOK_EVERY_S = 0.002
_FEWEST_STEPS = 3


class PowerMeter:
    """Reads NVML's counter of a device's energy until it is left.

    The counter moves every 20 to 100 ms: power is what it gained between the first and the last of its steps within a
    stretch, over the time between them. So it need not be known how long a step is.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._steps: list[tuple[float, int]] = []
        """When the counter was first seen to have a value (time.monotonic), and the value in millijoules."""
        self._left = threading.Event()
        self._reader = threading.Thread(target=self._read, name="power-meter", daemon=True)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._reader.join()

    def power_mw(self, since: float, until: float) -> float | None:
        """Milliwatts, mean between two times of time.monotonic; None where the counter did not move often enough."""
        # The first value was there before it was read.
        within = [step for step in self._steps[1:] if since <= step[0] <= until]
        if len(within) < _FEWEST_STEPS:
            return None
        (first_s, first_mj), (last_s, last_mj) = within[0], within[-1]
        return (last_mj - first_mj) / (last_s - first_s)

    def _read(self) -> None:
        while not self._left.wait(_LOOK_EVERY_S):
            used_mj = self._device.total_energy_mj()
            if used_mj is not None and (not self._steps or used_mj != self._steps[-1][1]):
                self._steps.append((time.monotonic(), used_mj))

"""Power from a counter that moves in steps."""

import time

import pytest

from evaluation.profile.energy import PowerMeter

STEP_S, POWER_MW = 0.03, 250_000


class Counter:
    """A device's counter of energy that moves every STEP_S."""

    def __init__(self, power_mw=POWER_MW):
        self.begun = time.monotonic()
        self.power_mw = power_mw

    def total_energy_mj(self):
        steps = int((time.monotonic() - self.begun) / STEP_S)
        return int(10_000 + steps * STEP_S * self.power_mw)


def test_power_is_what_the_counter_gains_between_its_steps():
    with PowerMeter(Counter()) as meter:
        begun = time.monotonic()
        time.sleep(0.5)
        ended = time.monotonic()
    assert meter.power_mw(begun, ended) == pytest.approx(POWER_MW, rel=0.1)


@pytest.mark.parametrize("power_mw", [0, 1])
def test_a_counter_that_stands_still_tells_nothing(power_mw):
    with PowerMeter(Counter(power_mw)) as meter:
        begun = time.monotonic()
        time.sleep(0.1)
        ended = time.monotonic()
    assert meter.power_mw(begun, ended) is None

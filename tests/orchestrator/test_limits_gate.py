"""The gate: what one process learns all others heed, and nobody holds a seat that others need."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from together import begin, together

from agents.errors import Draining, ProviderCause, ProviderError
from agents.protocols import Usage
from agents.settings import ModelSettings
from orchestrator.limits.limits import Limits
from orchestrator.limits.pace import Pace
from orchestrator.limits.seats import Seats
from orchestrator.limits.settings import LimitsSettings

NOTHING = Usage()
HOLDER = """
import sys, time
from pathlib import Path
from agents.protocols import Usage
from agents.settings import ModelSettings
from orchestrator.limits.limits import Limits
from orchestrator.limits.settings import LimitsSettings

root, log = Path(sys.argv[1]), open(sys.argv[2], "w")
print("ready", flush=True)
until = float(sys.stdin.readline())
with Limits(root, LimitsSettings(), "holder") as limits:
    gate = limits.gate(ModelSettings(name="m", litellm_model="openai/m", concurrent=3))
    while time.time() < until:
        permit = gate.admit(Usage())
        print("in", time.time(), file=log, flush=True)
        time.sleep(0.03)
        print("out", time.time(), file=log, flush=True)
        permit.settle(Usage())
"""


def model(**limits: Any) -> ModelSettings:
    return ModelSettings(name="m", litellm_model="openai/m", **limits)


@contextmanager
def process(store: Path, stop: threading.Event | None = None) -> Iterator[Limits]:
    """All that one process has of its own; two of them in one test share files and nothing else."""
    with Limits(store, LimitsSettings(), "w", stop) as limits:
        yield limits


def refused(retry_after_s: float | None) -> ProviderError:
    return ProviderError(ProviderCause.RATE_LIMIT, "slow down", retry_after_s=retry_after_s)


def waited_s(limits: Limits, **settings: Any) -> float:
    started = time.monotonic()
    limits.gate(model(**settings)).admit(NOTHING).settle(NOTHING)
    return time.monotonic() - started


def test_retry_after_seen_by_one_process_makes_every_process_wait(tmp_path: Path) -> None:
    with process(tmp_path) as one, process(tmp_path) as other:
        assert waited_s(other) < 2.5
        one.gate(model()).admit(NOTHING).refused(refused(3.0))
        assert 2.8 <= waited_s(other) <= 15


def test_another_deployment_does_not_wait(tmp_path: Path) -> None:
    with process(tmp_path) as limits:
        limits.gate(model()).admit(NOTHING).refused(refused(60.0))
        assert waited_s(limits, base_url="http://elsewhere/v1") < 30


def test_a_long_cooldown_is_not_waited_for(tmp_path: Path) -> None:
    with process(tmp_path) as one, process(tmp_path) as other:
        one.gate(model()).admit(NOTHING).refused(refused(600.0))
        with pytest.raises(ProviderError, match="RATE_LIMIT") as caught:
            other.gate(model()).admit(NOTHING)
        assert caught.value.retry_after_s is not None and 590 < caught.value.retry_after_s <= 600


def test_an_outage_that_names_a_time_is_heeded_and_takes_no_seats(tmp_path: Path) -> None:
    with process(tmp_path) as limits:
        away = ProviderError(ProviderCause.OUTAGE, "away", retry_after_s=0.5)
        limits.gate(model()).admit(NOTHING).refused(away)
        assert waited_s(limits) >= 0.4
        assert Pace(tmp_path / "limits" / "deployments" / limits.gate(model()).name / "pace", None).allowed(0.0) is None


def test_whoever_waits_at_the_gate_wakes_up_when_the_process_is_to_end(tmp_path: Path) -> None:
    stop = threading.Event()
    with process(tmp_path, stop) as limits:
        gate = limits.gate(model(concurrent=1, requests_per_min=60))
        held = gate.admit(NOTHING)
        results: list[str] = []

        def ask() -> None:
            with pytest.raises(Draining):
                gate.admit(NOTHING)
            results.append("woke up")

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        stop.set()
        for thread in threads:
            thread.join(60)
        assert results == ["woke up"] * 4
        held.settle(NOTHING)


def test_no_more_requests_than_allowed_are_under_way_though_processes_are_killed(tmp_path: Path) -> None:
    holders = [together(HOLDER, str(tmp_path), str(tmp_path / f"{number}.log")) for number in range(5)]
    try:
        until = begin(holders, 5.5)
        time.sleep(max(0.0, until - 3.5 - time.time()))
        for holder in holders[:2]:
            holder.send_signal(signal.SIGKILL)
        assert [holder.wait(60) for holder in holders[2:]] == [0, 0, 0]
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()
    stays = []
    for path in tmp_path.glob("*.log"):
        events = [line.split() for line in path.read_text().splitlines()]
        starts = [float(at) for what, at in events if what == "in"]
        ends = [float(at) for what, at in events if what == "out"]
        stays += list(zip(starts, ends, strict=False))
    changes = sorted([(end, -1) for _, end in stays] + [(start, 1) for start, _ in stays])
    under_way = most = 0
    for _, change in changes:
        under_way += change
        most = max(most, under_way)
    assert most <= 3
    assert sum(start > until - 1.0 for start, _ in stays) >= 3


def test_a_dead_holders_seat_is_taken_and_an_old_listing_takes_nothing(tmp_path: Path) -> None:
    cards = [tmp_path / name for name in ("ada", "bob")]
    for card in cards:
        card.write_text(card.name)
    ada, bob = (Seats(tmp_path / "seats", card) for card in cards)
    seat = ada.take(1)
    assert seat is not None and bob.take(1) is None
    assert bob.evict(lambda who: who != "ada", 1) is None
    taken = bob.evict(lambda who: who == "ada", 1)
    assert taken is not None
    seat.release()
    assert ada.take(1) is None and ada.taken() == 1
    taken.release()
    for _ in range(3):
        again = ada.take(1)
        assert again is not None
        again.release()
    assert bob._succeed(0, 1, "0.1.free") is None, "generation 2 was used and forgotten long ago"
    assert ada.take(1) is not None


class TestPace:
    def test_a_signal_halves_and_time_gives_back(self, tmp_path: Path) -> None:
        pace = Pace(tmp_path, ceiling=20)
        assert pace.allowed(0.0) == 20
        pace.slow_down(100.0, 2.0, under_way=16)
        assert pace.cooldown_until() == 102.0
        assert [Pace(tmp_path, 20).allowed(102.0 + s) for s in (0, 30, 60, 600)] == [8, 12, 16, 20]

    def test_signals_of_one_episode_count_once(self, tmp_path: Path) -> None:
        pace = Pace(tmp_path, ceiling=None)
        for at in (100.0, 100.2, 101.0, 104.0):
            pace.slow_down(at, None, under_way=32)
        assert pace.allowed(101.0) == 16
        pace.slow_down(110.0, None, under_way=18)
        assert pace.allowed(111.0) == 9

    def test_without_a_declared_limit_there_is_none_until_a_signal_comes(self, tmp_path: Path) -> None:
        pace = Pace(tmp_path, ceiling=None)
        assert pace.allowed(0.0) is None
        pace.slow_down(100.0, None, under_way=1)
        assert pace.allowed(100.0) == 1
        assert (pace.allowed(100.0 + 700) or 0) > 10

    def test_unexplained_signals_in_a_row_wait_longer_each_time(self, tmp_path: Path) -> None:
        pace, now, waits = Pace(tmp_path, None), 1000.0, []
        for _ in range(8):
            pace.slow_down(now, None, under_way=4)
            waits.append(pace.cooldown_until() - now)
            now = pace.cooldown_until() + 6.0
        assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_tokens_of_prompts_are_waited_for_and_those_of_replies_made_up_for(tmp_path: Path) -> None:
    with process(tmp_path) as one, process(tmp_path) as other:
        gate = one.gate(model(tokens_per_min=60_000))
        permit = gate.admit(Usage(prompt_tokens=400))
        permit.settle(Usage(prompt_tokens=500, completion_tokens=1500))
        started = time.monotonic()
        other.gate(model(tokens_per_min=60_000)).admit(Usage(prompt_tokens=400)).lost()
        assert 1.5 <= time.monotonic() - started <= 15


def test_a_request_that_was_refused_gives_its_tokens_back(tmp_path: Path) -> None:
    with process(tmp_path) as limits:
        gate = limits.gate(model(tokens_per_min=60_000))
        started = time.monotonic()
        for _ in range(5):
            gate.admit(Usage(prompt_tokens=2000)).refused(ProviderError(ProviderCause.OUTAGE, "away"))
        assert time.monotonic() - started < 7.0  # of the ten that they would take

"""Parking, the breaker, hours, and what `status` says of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from agents.errors import ExperimentSpent, ProviderCause, ProviderError
from agents.protocols import Usage
from agents.settings import ModelSettings
from orchestrator.limits.breaker import Breaker, lift_pause, park_s, read_pause
from orchestrator.limits.hours import Hours
from orchestrator.limits.limits import Limits
from orchestrator.limits.members import LEASE_S, Members, Membership, Pulse, worked_s
from orchestrator.limits.settings import LimitsSettings
from orchestrator.limits.summary import summary, write_settings

AWAY = ProviderError(ProviderCause.OUTAGE, "connection refused")
SETTINGS = LimitsSettings(breaker_failures=6, breaker_probe_s=100.0)


@pytest.fixture
def workers(tmp_path: Path, clock: Any) -> list[Breaker]:
    return [
        Breaker(tmp_path / "limits", SETTINGS, name, clock) for name in ("20261130T180000Z-ada", "20261130T180000Z-bob")
    ]


def fail(workers: list[Breaker], clock: Any, times: int) -> None:
    for number in range(times):
        clock.time += 1.0
        workers[number % len(workers)].failed(AWAY, 0)


def test_failures_in_a_row_over_two_workers_pause_the_sweep_and_a_person_lifts_it(
    workers: list[Breaker], clock: Any, tmp_path: Path
) -> None:
    fail(workers, clock, 5)
    assert all(worker.may_take() for worker in workers)
    fail(workers[1:], clock, 1)
    assert not any(worker.may_take() for worker in workers)
    pause = read_pause(tmp_path / "limits")
    assert pause is not None and "6 failures in a row of 2 workers" in pause.cause and "OUTAGE" in pause.cause
    clock.time += 1.0
    assert lift_pause(tmp_path / "limits", clock) and not lift_pause(tmp_path / "limits", clock)
    fail(workers, clock, 5)
    assert all(worker.may_take() for worker in workers), "what failed before the pause no longer counts"


def test_one_answer_anywhere_breaks_the_row(workers: list[Breaker], clock: Any) -> None:
    for _ in range(4):
        fail(workers, clock, 4)
        clock.time += 10.0
        workers[0].answered()
    assert workers[1].may_take()


def test_one_worker_alone_pauses_nothing(workers: list[Breaker], clock: Any) -> None:
    fail(workers[:1], clock, 20)
    assert workers[1].may_take()


def test_after_a_while_one_cell_is_let_through_and_its_answer_ends_the_pause(
    workers: list[Breaker], clock: Any
) -> None:
    fail(workers, clock, 6)
    clock.time += 101.0
    assert [worker.may_take() for worker in workers] == [True, False]
    workers[0].failed(AWAY, 1)
    clock.time += 101.0
    assert not any(worker.may_take() for worker in workers), "the next one waits twice as long"
    clock.time += 100.0
    assert [worker.may_take() for worker in reversed(workers)] == [True, False]
    workers[1].answered()
    assert all(worker.may_take() for worker in workers) and workers[0].paused() is None


def test_a_parked_cell_waits_longer_each_time_with_jitter_and_as_the_provider_asks() -> None:
    first = [park_s(0) for _ in range(200)]
    assert 15 <= min(first) < 18 and 27 < max(first) <= 30
    assert 900 <= park_s(20) <= 1800
    assert park_s(0, retry_after_s=100.0) >= 115


def test_hours_on_the_device_are_neither_forgotten_nor_doubled(tmp_path: Path) -> None:
    first, second = Hours(tmp_path, "a"), Hours(tmp_path, "b")
    first.note("x", 100.0)
    second.note("x", 250.0)
    second.note("y", 50.0)
    assert first.device_s() == second.device_s() == 300.0
    first.note("y", 50.0)
    assert Hours(tmp_path, "c").device_s() == 300.0


def test_hours_at_work_are_the_union_of_the_processes_lives(tmp_path: Path, clock: Any) -> None:
    start = clock.time
    for begins, ends in ((0.0, 100.0), (50.0, 150.0), (1000.0, 1010.0)):
        clock.time = start + begins
        member = Membership(tmp_path, "w", clock)
        member.beat()
        clock.time = start + ends
        member.end()
    assert worked_s(tmp_path) == pytest.approx(160.0)


@pytest.mark.parametrize("cap", ["gpu_hours", "wall_hours"])
def test_a_spent_cap_of_hours_lets_no_request_through_until_it_is_raised(tmp_path: Path, cap: str) -> None:
    with Limits(tmp_path, LimitsSettings(), "w") as limits:
        limits.hours.note("x", 7200.0)
        model = ModelSettings(name="m", litellm_model="openai/m")
        limits.gate(model).admit(Usage()).settle(Usage())
    with Limits(tmp_path, LimitsSettings(**{cap: 1e-9}), "w") as limits:
        with pytest.raises(ExperimentSpent, match=rf"limits\.{cap}=1e-09 is reached: .* raise the cap and run again"):
            limits.gate(model).admit(Usage())
    with Limits(tmp_path, LimitsSettings(**{cap: 3.0}), "w") as limits:
        limits.check()


def test_a_silent_process_of_another_host_lapses_by_the_observers_own_clock(tmp_path: Path, clock: Any) -> None:
    member = Membership(tmp_path, "far", clock)
    member.beat()
    path = tmp_path / f"{member.id}.json"
    holder = member._holder
    path.write_text(path.read_text().replace(holder.host, "elsewhere").replace(holder.boot_id, "another"))
    members = Members(tmp_path, clock)
    assert members.pulse(member.id) is Pulse.ALIVE
    clock.time += LEASE_S - 1
    assert members.pulse(member.id) is Pulse.ALIVE
    clock.time += 1
    assert members.pulse(member.id) is Pulse.LAPSED
    member.end()
    assert members.pulse(member.id) is Pulse.DEAD


def test_the_summary_says_what_is_spent_of_what(tmp_path: Path, clock: Any) -> None:
    write_settings(tmp_path, LimitsSettings(cost_usd=5.0, gpu_hours=2.0))
    model = ModelSettings(name="m", litellm_model="openai/m")
    with Limits(tmp_path, LimitsSettings(cost_usd=5.0), "w") as limits:
        limits.gate(model).admit(Usage(cost_usd=1.0)).settle(Usage(cost_usd=0.75))
        limits.gate(model).admit(Usage(cost_usd=0.5)).lost()
        limits.hours.note("x", 1800.0)
    clock.time = time.time() + 1.0  # after the answer above
    fail([Breaker(tmp_path / "limits", SETTINGS, name, clock) for name in ("ada", "bob")], clock, 6)
    found = summary(tmp_path)
    assert (found.cost_usd, found.gpu_hours, found.wall_hours_cap) == (1.25, 0.5, None)
    assert found.lines()[0].startswith("spent: $1.25 of $5.00, 0.50 of 2 GPU-hours, 0.00 of no limit wall-hours")
    assert found.lines()[1].startswith("paused: breaker: 6 failures in a row")


def test_the_summary_of_a_store_without_limits_is_nothing_spent(tmp_path: Path) -> None:
    assert summary(tmp_path).cost_usd == 0.0 and summary(tmp_path).paused is None

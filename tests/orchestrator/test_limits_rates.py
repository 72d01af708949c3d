"""Rates that processes share: a simulated clock for minutes, real processes for seconds."""

from __future__ import annotations

import heapq
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from together import begin, together

from orchestrator.limits.timeline import LATE_S, Timeline

REQUESTER = """
import sys, time
from pathlib import Path
from agents.protocols import Usage
from agents.settings import ModelSettings
from orchestrator.limits.limits import Limits
from orchestrator.limits.settings import LimitsSettings

root, log, per_min = Path(sys.argv[1]), open(sys.argv[2], "w"), int(sys.argv[3])
print("ready", flush=True)
until = float(sys.stdin.readline())
with Limits(root, LimitsSettings(), "requester") as limits:
    gate = limits.gate(ModelSettings(name="m", litellm_model="openai/m", requests_per_min=per_min))
    while time.time() < until:
        permit = gate.admit(Usage())
        print(time.time(), file=log, flush=True)
        permit.settle(Usage())
"""


def most_within(times: list[float], seconds: float) -> int:
    """The most that any window of so many seconds holds."""
    times = sorted(times)
    most, first = 0, 0
    for last, at in enumerate(times):
        while times[first] <= at - seconds:
            first += 1
        most = max(most, last - first + 1)
    return most


class Minutes:
    """Processes that send as fast as they may, in an event loop whose time is a number. The files are real."""

    def __init__(self, folder: Path, per_min: int, processes: int, skew_s: float = 0.0, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._timelines = [Timeline(folder, per_min) for _ in range(processes)]
        self._skews_s = [self._random.uniform(-skew_s, skew_s) for _ in range(processes)]
        self.sent: list[tuple[float, int]] = []

    def run(self, seconds: float, dies: dict[int, float] | None = None, reply_s: float = 0.0) -> list[float]:
        """When requests were sent. `dies` says which process ends when, with what it has booked."""
        start = 1_000_000.0
        queue = [(start + self._random.random(), number, "ask") for number in range(len(self._timelines))]
        heapq.heapify(queue)
        while queue:
            now, number, what = heapq.heappop(queue)
            if now > start + seconds or now > start + (dies or {}).get(number, seconds):
                continue
            if what == "send":
                self.sent.append((now - start, number))
                heapq.heappush(queue, (now + reply_s * self._random.random(), number, "ask"))
                continue
            at = self._timelines[number].book(now + self._skews_s[number])
            if at is None:
                heapq.heappush(queue, (now + self._random.uniform(0.2, 1.0), number, "ask"))
            else:
                late_s = self._random.uniform(0.0, 0.2)
                heapq.heappush(queue, (at - self._skews_s[number] + late_s, number, "send"))
        return [at for at, _ in self.sent]


@pytest.mark.parametrize("per_min", [10, 120, 900])
def test_eight_processes_use_the_rate_and_never_pass_it_in_any_minute(tmp_path: Path, per_min: int) -> None:
    sent = Minutes(tmp_path, per_min, 8).run(240.0, reply_s=0.01)
    assert most_within(sent, 60.0) <= 1.05 * per_min
    for start in (10, 60, 120, 175):
        assert sum(start <= at < start + 60 for at in sent) >= 0.9 * per_min


def test_when_half_of_the_processes_die_the_others_take_their_share_at_once(tmp_path: Path) -> None:
    minutes = Minutes(tmp_path, 120, 8)
    minutes.run(180.0, dies={0: 60.0, 1: 60.5, 2: 61.0, 3: 61.5})
    sent = [at for at, _ in minutes.sent]
    assert most_within(sent, 60.0) <= 126
    assert 108 <= sum(65 <= at < 125 for at in sent) <= 126
    assert {number for at, number in minutes.sent if at > 62} == {4, 5, 6, 7}


def test_clocks_that_differ_by_two_seconds_pass_the_rate_by_less_than_five_in_a_hundred(tmp_path: Path) -> None:
    sent = Minutes(tmp_path, 120, 8, skew_s=1.0).run(240.0)
    assert 108 <= most_within(sent, 60.0) <= 126


def test_a_process_alone_has_the_whole_rate_and_one_that_asks_for_little_takes_little(tmp_path: Path) -> None:
    minutes = Minutes(tmp_path, 120, 2)
    minutes._timelines[1].book(1_000_000.0)
    sent = minutes.run(70.0, dies={1: 0.0})
    assert sum(5 <= at < 65 for at in sent) >= 108


def test_what_was_used_and_not_booked_is_made_up_for(tmp_path: Path) -> None:
    one, other = Timeline(tmp_path, 60), Timeline(tmp_path, 60)
    for _ in range(30):
        one.book(1000.0, far=True)
    assert other.book(1000.0) is None
    at = other.book(1030.0)
    assert at is not None and at >= 1000.0 + 30 * one.period_s - 1


def test_old_moments_are_removed(tmp_path: Path) -> None:
    timeline = Timeline(tmp_path, 6000)
    for second in range(0, 3000, 2):
        timeline.book(1_000_000.0 + second)
    kept_s = len(list(timeline._directory.iterdir())) * 256 * timeline.period_s
    assert 300 <= kept_s <= 320


@pytest.fixture
def requesters() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def test_eight_real_processes_and_then_four(tmp_path: Path, requesters: list[subprocess.Popen[bytes]]) -> None:
    """360 a minute are 6 a second: about 59 in ten seconds, before and after half of them are killed."""
    per_min = 360
    for number in range(8):
        requesters.append(together(REQUESTER, str(tmp_path), str(tmp_path / f"{number}.log"), str(per_min)))
    until = begin(requesters, 17.0)
    time.sleep(until - 11.0 - time.time())
    killed_at = time.time()
    for process in requesters[:4]:
        process.send_signal(signal.SIGKILL)
    for process in requesters[4:]:
        assert process.wait(60) == 0
    sent = [float(line) for path in tmp_path.glob("*.log") for line in path.read_text().split()]
    assert most_within(sent, 10.0) <= 1.05 * per_min / 60 * (10 + LATE_S)
    assert sum(killed_at - 5 <= at < killed_at for at in sent) >= 0.75 * per_min / 60 * 5
    assert sum(killed_at + 1 <= at < killed_at + 11 for at in sent) >= 0.75 * per_min / 6

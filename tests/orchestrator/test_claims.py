"""Claims are exclusive over processes, survive death, and the highest number is the only valid one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.store.claims import Outcome, forget_earlier, history, take
from orchestrator.store.leases import LINKS_MAX, Lease, Liveness, Load, Watch, live_leases, read_pulse

RACER = """
import sys, pathlib
from orchestrator.store.claims import take
from orchestrator.store.leases import Lease, Watch
root = pathlib.Path(sys.argv[1])
with Lease(root / "leases", "race") as lease:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(200):
        if take(root / str(number), lease, Watch()) is not None:
            print(number, flush=True)
    sys.stdin.readline()
"""
HOLDER = """
import sys, pathlib
from orchestrator.store.claims import take
from orchestrator.store.leases import Lease, Watch
folder = pathlib.Path(sys.argv[1])
with Lease(folder, "holder", lease_s=float(sys.argv[2])) as lease:
    claim = take(folder, lease, Watch())
    print("held", flush=True)
    sys.stdin.readline()
    print(claim.valid(), flush=True)
"""


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    process.stdout.readline()
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


@pytest.fixture
def lease(tmp_path: Path) -> Iterator[Lease]:
    with Lease(tmp_path, "mine") as opened:
        yield opened


class Clock:
    """Monotonic seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def elsewhere(path: Path) -> None:
    """Make a lease one of another host, about whose processes nothing is known here."""
    data = path.read_bytes()
    with path.open("r+b") as file:  # in place: its claims are links to it
        file.write(data.replace(b'"boot_id": "', b'"boot_id": "X')[: len(data)].ljust(len(data)))
        file.write(data.replace(b'"boot_id": "', b'"boot_id": "X')[len(data) :])


def test_of_many_processes_exactly_one_gets_each_claim(tmp_path: Path) -> None:
    racers = [start(RACER, str(tmp_path)) for _ in range(4)]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("*/1.claim"))) < 200 and time.monotonic() < deadline:
        time.sleep(0.05)
    printed: list[int] = []
    for racer in racers:
        out, _ = racer.communicate("stop\n")
        printed += [int(line) for line in out.split()]
    assert sorted(printed) == list(range(200))
    assert all(len(history(tmp_path / str(number))) == 1 for number in range(200))
    assert len({path.stat().st_ino for path in tmp_path.glob("*/1.claim")}) <= 4  # a claim costs no inode


def test_a_dead_holder_is_followed_by_the_next_number(tmp_path: Path, lease: Lease) -> None:
    holder = start(HOLDER, str(tmp_path), "60")
    try:
        assert history(tmp_path)[0].holder.pid == holder.pid
        assert take(tmp_path, lease, Watch()) is None
        os.kill(holder.pid, signal.SIGKILL)
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)  # dead, and not reaped yet: a zombie holds nothing
        claim = take(tmp_path, lease, Watch())
    finally:
        end(holder)
    assert claim is not None and claim.number == 2 and claim.valid()
    assert [(old.number, old.job) for old in history(tmp_path)] == [(1, "holder"), (2, "mine")]


def test_a_holder_that_sleeps_past_its_lease_is_overtaken_and_learns_it_when_it_wakes(
    tmp_path: Path, lease: Lease
) -> None:
    holder = start(HOLDER, str(tmp_path), "2.0")
    watch = Watch()
    try:
        for _ in range(5):
            assert take(tmp_path, lease, watch) is None  # it beats
            time.sleep(0.5)
        os.kill(holder.pid, signal.SIGSTOP)
        assert take(tmp_path, lease, watch) is None
        deadline = time.monotonic() + 60
        while (claim := take(tmp_path, lease, watch)) is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.kill(holder.pid, signal.SIGCONT)
        out, _ = holder.communicate("wake\n", timeout=60)
    finally:
        end(holder)
    assert out.split() == ["False"] and claim.number == 2 and claim.valid()


def test_a_holder_lets_go_and_says_why(tmp_path: Path, lease: Lease) -> None:
    first = take(tmp_path, lease, Watch())
    assert first is not None
    first.end(Outcome.PARKED, "ProviderError: no route", not_before=5.0)
    stored = history(tmp_path)[0].ended
    assert stored is not None
    assert (stored.outcome, stored.cause, stored.not_before) == (Outcome.PARKED, "ProviderError: no route", 5.0)
    second = take(tmp_path, lease, Watch())
    assert second is not None and second.number == 2
    assert second.valid() and not first.valid()


def test_another_hosts_lease_is_judged_by_its_beats_alone(tmp_path: Path) -> None:
    clock = Clock()
    watch = Watch(clock)
    with Lease(tmp_path, "far", lease_s=60.0) as far:
        (path,) = tmp_path.glob("*.lease")
        elsewhere(path)

        def liveness() -> Liveness:
            pulse = read_pulse(path)
            assert pulse is not None
            return watch.liveness(pulse)

        assert liveness() is Liveness.UNKNOWN
        clock.now += 59
        assert liveness() is Liveness.UNKNOWN
        far.beat()
        clock.now += 59
        assert liveness() is Liveness.ALIVE  # the count has moved: the old 118 seconds are forgotten
        clock.now += 61
        assert liveness() is Liveness.DEAD
        far.beat()
        assert liveness() is Liveness.ALIVE
        path.write_bytes(path.read_bytes().replace(b"X", b""))
        assert liveness() is Liveness.ALIVE


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("pid", str(2**22 + 1), Liveness.DEAD),  # beyond the largest number that Linux gives
        ("started_ticks", "1", Liveness.DEAD),  # the number was given to another process
        ("pid_namespace", '"pid:[1]"', Liveness.UNKNOWN),  # another container, whose numbers mean nothing here
    ],
)
def test_on_this_host_the_process_table_decides_at_once(
    tmp_path: Path, field: str, value: str, expected: Liveness
) -> None:
    with Lease(tmp_path, "mine"):
        (path,) = tmp_path.glob("*.lease")
        pulse = read_pulse(path)
        assert pulse is not None and Watch().liveness(pulse) is Liveness.ALIVE
        old = getattr(pulse.holder, field)
        text = path.read_text().replace(f'"{field}": {old!r}'.replace("'", '"'), f'"{field}": {value}')
        path.write_text(text)
        changed = read_pulse(path)
        assert changed is not None and Watch().liveness(changed) is expected


def test_one_beat_renews_all_claims_also_when_the_lease_has_several_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert LINKS_MAX <= 60_000  # of the 65,000 that ext4 allows
    monkeypatch.setattr("orchestrator.store.leases.LINKS_MAX", 3)
    with Lease(tmp_path / "leases", "mine") as lease:
        lease.load = lambda: Load(loops=16, loops_at_work=12, judges=2, judges_at_work=1)
        for number in range(8):
            assert take(tmp_path / str(number), lease, Watch()) is not None
        before = [read_pulse(tmp_path / str(number) / "1.claim") for number in range(8)]
        lease.beat()
        after = [read_pulse(tmp_path / str(number) / "1.claim") for number in range(8)]
        assert [pulse.count for pulse in after if pulse] == [pulse.count + 1 for pulse in before if pulse]
        assert len(list((tmp_path / "leases").iterdir())) == 3
        ((seen, liveness),) = live_leases(tmp_path / "leases", Watch())
        assert seen.load == lease.load() and liveness is Liveness.ALIVE
    assert list((tmp_path / "leases").iterdir()) == []


def test_forgetting_keeps_the_number_growing(tmp_path: Path) -> None:
    with Lease(tmp_path / "leases", "sync") as lease:
        for number in range(1, 6):
            claim = take(tmp_path / "owner", lease, Watch())
            assert claim is not None and claim.number == number
            claim.end(Outcome.DONE)
            forget_earlier(claim)
    assert sorted(path.name for path in (tmp_path / "owner").iterdir()) == ["5.claim", "5.end.json"]


def test_a_claimer_that_slept_past_a_deletion_gets_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It saw number 1 ended, slept while 2 came and went and 3 was taken, and then wants 2."""
    owner = tmp_path / "owner"
    with Lease(tmp_path, "slow") as slow, Lease(tmp_path, "other") as other:
        first = take(owner, slow, Watch())
        assert first is not None
        first.end(Outcome.DONE)
        link = slow.link

        def sleep_meanwhile(path: Path) -> bool:
            for outcome in (Outcome.DONE, None):
                claim = take(owner, other, Watch())
                assert claim is not None
                forget_earlier(claim)
                if outcome:
                    claim.end(outcome)
            return link(path)

        monkeypatch.setattr(slow, "link", sleep_meanwhile)
        assert take(owner, slow, Watch()) is None
        assert history(owner)[-1].number == 3

"""Money that processes share: real processes that are killed, against what a server has counted."""

from __future__ import annotations

import random
import signal
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.errors import AgentConfigError, Draining, ExperimentSpent, ProviderCause, ProviderError
from agents.protocols import Usage
from agents.settings import ModelSettings
from orchestrator.limits.bank import FENCE_S, Bank, WalletTaken
from orchestrator.limits.ledger import NUSD, Spending, read_spending
from orchestrator.limits.limits import Limits
from orchestrator.limits.members import Pulse
from orchestrator.limits.settings import LimitsSettings
from orchestrator.store.files import read_lines

MODEL = ModelSettings(name="m", litellm_model="openai/m")
WORST_USD = 0.02
SPENT = 7
BUYER = """
import socket, sys
from pathlib import Path
from agents.errors import ExperimentSpent
from agents.protocols import Usage
from agents.settings import ModelSettings
from orchestrator.limits.limits import Limits
from orchestrator.limits.settings import LimitsSettings

root, port, cap, worst = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
with Limits(root, LimitsSettings(cost_usd=cap), "buyer") as limits:
    gate = limits.gate(ModelSettings(name="m", litellm_model="openai/m"))
    while True:
        try:
            permit = gate.admit(Usage(cost_usd=worst))
        except ExperimentSpent:
            sys.exit(7)
        with socket.create_connection(("127.0.0.1", port)) as connection:
            cost = int(connection.makefile().readline()) / 1e9
        permit.settle(Usage(prompt_tokens=10, completion_tokens=5, cost_usd=cost))
"""


class Shop(socketserver.ThreadingTCPServer):
    """Charges each connection an amount that no other is charged, in nano-dollars, and keeps the sum."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Sale)
        self.charged: list[int] = []
        self.lock = threading.Lock()


class _Sale(socketserver.StreamRequestHandler):
    server: Shop

    def handle(self) -> None:
        with self.server.lock:
            amount = random.randrange(2_000_000, 19_000_000, 10_000) + len(self.server.charged)
            self.server.charged.append(amount)
        time.sleep(random.uniform(0.0, 0.05))
        self.wfile.write(f"{amount}\n".encode())


@pytest.fixture
def shop() -> Iterator[Shop]:
    with Shop() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def start(tmp_path: Path, shop: Shop) -> Iterator[Callable[[float], subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def begin(cap_usd: float) -> subprocess.Popen[bytes]:
        arguments = [str(tmp_path), str(shop.server_address[1]), str(cap_usd), str(WORST_USD)]
        started.append(subprocess.Popen([sys.executable, "-c", BUYER, *arguments]))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


def ledgers(store: Path) -> tuple[Spending, list[int]]:
    """What all ledgers say together, and every amount that was charged."""
    total, charges = Spending(), []
    for path in (store / "limits" / "ledgers").glob("*.jsonl"):
        total.add(read_spending(path))
        charges += [row["charged"] for row in read_lines(path)[0] if "charged" in row]
    return total, charges


def closed_nusd(store: Path) -> int:
    """What the bank says is spent, after every wallet has been closed."""
    with Limits(store, LimitsSettings(cost_usd=1e6), "auditor") as limits:
        bank = Bank(store / "limits", 10**15, limits._shared.clock)
        bank.reconcile(limits._shared.pulse)
        spent, open_wallets = bank.totals()
    assert open_wallets == []
    return spent


def buy(limits: Limits, cost_usd: float, worst_usd: float = WORST_USD) -> None:
    limits.gate(MODEL).admit(Usage(cost_usd=worst_usd)).settle(Usage(cost_usd=cost_usd))


def test_sixteen_processes_never_pass_a_dollar_and_use_it_up(tmp_path: Path, shop: Shop, start: Any) -> None:
    processes = [start(1.0) for _ in range(16)]
    assert [process.wait(200) for process in processes] == [SPENT] * 16
    assert NUSD * (1.0 - WORST_USD) < sum(shop.charged) <= NUSD
    spent, charges = ledgers(tmp_path)
    assert sorted(charges) == sorted(shop.charged)
    assert spent.total_nusd == sum(shop.charged) == closed_nusd(tmp_path)


def test_after_kills_at_random_points_the_ledger_agrees_with_the_server(tmp_path: Path, shop: Shop, start: Any) -> None:
    kills, running = 0, [start(1.0) for _ in range(6)]
    deadline = time.monotonic() + 200
    while any(process.poll() is None for process in running):
        sold = len(shop.charged) + random.randrange(12)  # a dollar is more than fifty sales, so it sees some kills
        while len(shop.charged) < sold and any(process.poll() is None for process in running):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        time.sleep(random.uniform(0.0, 0.05))
        victim = random.choice(running)
        if victim.poll() is None and kills < 15:
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            kills += 1
            running[running.index(victim)] = start(1.0)
    assert kills > 3
    assert sum(shop.charged) <= NUSD
    spent, charges = ledgers(tmp_path)
    assert len(set(charges)) == len(charges) and set(charges) <= set(shop.charged)
    unsettled = set(shop.charged) - set(charges)
    assert len(unsettled) <= len(spent.in_doubt) <= kills
    assert spent.total_nusd == sum(charges) + len(spent.in_doubt) * round(WORST_USD * NUSD) == closed_nusd(tmp_path)
    assert NUSD * (1.0 - WORST_USD) < spent.total_nusd <= NUSD

    first_bill = sum(shop.charged)
    assert [process.wait(200) for process in [start(1.0), start(1.2)]] == [SPENT, SPENT]
    assert first_bill < sum(shop.charged) <= 1.2 * NUSD
    assert 1.2 * NUSD - WORST_USD * NUSD < closed_nusd(tmp_path) <= 1.2 * NUSD


def test_a_cap_that_is_reached_is_said_in_one_sentence_and_a_higher_one_goes_on(tmp_path: Path) -> None:
    with Limits(tmp_path, LimitsSettings(cost_usd=0.05), "w") as limits:
        for _ in range(2):
            buy(limits, 0.02)
        with pytest.raises(ExperimentSpent, match=r"limits\.cost_usd=0\.05 is reached: \$0\.0400 are spent .* raise"):
            buy(limits, 0.02)
        buy(limits, 0.004, worst_usd=0.01)
    with Limits(tmp_path, LimitsSettings(cost_usd=0.1), "w") as limits:
        for _ in range(2):
            buy(limits, 0.02)
        with pytest.raises(ExperimentSpent):
            buy(limits, 0.02)


def test_a_cap_set_later_counts_what_was_spent_without_one(tmp_path: Path) -> None:
    with Limits(tmp_path, LimitsSettings(), "w") as limits:
        buy(limits, 0.02)
        limits.gate(MODEL).admit(Usage()).settle(Usage())
    with Limits(tmp_path, LimitsSettings(cost_usd=0.03), "w") as limits, pytest.raises(ExperimentSpent):
        buy(limits, 0.02)
    spent, _ = ledgers(tmp_path)
    assert (spent.requests, spent.unpriced, spent.charged_nusd) == (2, 1, round(0.02 * NUSD))


def test_a_lost_request_is_charged_in_full_and_a_refused_one_not_at_all(tmp_path: Path) -> None:
    with Limits(tmp_path, LimitsSettings(cost_usd=1.0), "w") as limits:
        gate = limits.gate(MODEL)
        gate.admit(Usage(cost_usd=0.3)).lost()
        gate.admit(Usage(cost_usd=0.3)).settle(Usage(prompt_tokens=1))
        gate.admit(Usage(cost_usd=0.3)).refused(ProviderError(ProviderCause.OUTAGE, "away"))
        gate.admit(Usage(cost_usd=0.4)).settle(Usage(cost_usd=0.4))
    assert closed_nusd(tmp_path) == NUSD


def test_under_a_cap_a_request_of_unknown_cost_is_refused(tmp_path: Path) -> None:
    with Limits(tmp_path, LimitsSettings(cost_usd=1.0), "w") as limits:
        with pytest.raises(AgentConfigError, match="costs at worst"):
            limits.gate(MODEL).admit(Usage(prompt_tokens=10))


def test_what_one_thread_holds_is_waited_for_and_not_called_spent(tmp_path: Path) -> None:
    with (
        Limits(tmp_path, LimitsSettings(cost_usd=0.03), "one") as one,
        Limits(tmp_path, LimitsSettings(cost_usd=0.03), "other") as other,
    ):
        held = one.gate(MODEL).admit(Usage(cost_usd=0.02))
        waiting = threading.Thread(target=buy, args=(other, 0.015))
        waiting.start()
        waiting.join(0.5)
        assert waiting.is_alive()
        held.settle(Usage(cost_usd=0.001))
        waiting.join(60)
        assert not waiting.is_alive()


def test_whoever_waits_for_money_wakes_up_when_the_process_is_to_end(tmp_path: Path) -> None:
    stop = threading.Event()
    with Limits(tmp_path, LimitsSettings(cost_usd=0.03), "w", stop) as limits:
        held = limits.gate(MODEL).admit(Usage(cost_usd=0.02))
        threading.Timer(0.2, stop.set).start()
        with pytest.raises(Draining):
            buy(limits, 0.0)
        held.settle(Usage(cost_usd=0.0))


def test_a_wallet_of_another_host_is_fenced_and_read_only_after_a_while(tmp_path: Path, clock: Any) -> None:
    ours, theirs = Bank(tmp_path, NUSD, clock), Bank(tmp_path, NUSD, clock)
    theirs.open("far.1")
    assert theirs.grant("far.1", NUSD // 2, 0) == NUSD // 2
    ours.reconcile(lambda member: Pulse.LAPSED)
    assert ours.standing().free == NUSD // 2
    with pytest.raises(WalletTaken):
        theirs.require_open("far.1")
    clock.time += FENCE_S
    ours.reconcile(lambda member: Pulse.LAPSED)
    assert ours.standing().free == NUSD and ours.totals() == (0, [])


def test_a_process_that_others_took_for_dead_goes_on_with_a_new_wallet(tmp_path: Path) -> None:
    with Limits(tmp_path, LimitsSettings(cost_usd=1.0), "w") as limits:
        held = limits.gate(MODEL).admit(Usage(cost_usd=0.3))
        Bank(tmp_path / "limits", NUSD, limits._shared.clock).reconcile(lambda member: Pulse.DEAD)
        buy(limits, 0.1, worst_usd=0.5)
        held.settle(Usage(cost_usd=0.01))
        with pytest.raises(ExperimentSpent):
            buy(limits, 0.7, worst_usd=0.7)
    assert closed_nusd(tmp_path) == round(0.4 * NUSD)

"""A whole sweep, by its command, against a provider that fails at every fifth turn in every way that passes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from faulty_provider import PRICE, answered, overrides, paid_for_nothing, play, wrong
from finished import assert_each_once, assert_ledger_exact, assert_no_reply_paid_twice
from model_server import Faults, Limit, model_server

from agents.protocols import ExitStatus
from orchestrator.config.experiment import load_experiment
from orchestrator.limits.ledger import NUSD
from orchestrator.limits.timeline import LATE_S
from orchestrator.plan import make_plan
from orchestrator.settings import CHECKOUT
from orchestrator.store.store import Store

CELLS = 40
CAP_USD = 4.0
PER_MIN = 1500


def test_cells_of_a_provider_at_fault_end_as_they_would_without_and_each_reply_is_paid_once(tmp_path: Path) -> None:
    faults = Faults(rate=0.2, seed=5, burst=2)
    limit = Limit(requests=int(PER_MIN / 60 * (6 + LATE_S)), per_s=6.0)
    with model_server(play, faults=faults, limit=limit) as server:
        server.retry_after_s = 0.2
        asked = overrides(
            server.url, CELLS, f"model.requests_per_min={PER_MIN}", f"limits.cost_usd={CAP_USD}",
            "launcher=local", "launcher.workers=2", "launcher.agents=6",
        )  # fmt: skip
        command = [sys.executable, "-m", "orchestrator", "run", *asked, "--out", str(tmp_path)]
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
        found = subprocess.run(command, env=environment, cwd=CHECKOUT, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr

    cells = make_plan(load_experiment(asked)).cells
    store = Store(tmp_path / "faulty")
    assert len(cells) == CELLS and wrong(store, cells, server) == []
    assert_each_once(store, cells)
    assert server.paid_twice() == []
    assert_no_reply_paid_twice(store, cells, list(answered(server)), lost_max=0)
    spent = assert_ledger_exact(store, cells, lost_max=paid_for_nothing(server))
    assert server.cost_usd(*PRICE) <= spent.total_nusd / NUSD <= CAP_USD and not spent.in_doubt
    assert not any(served.over_limit for served in server.log)

    played = Counter(served.fault for served in server.log)
    assert len(played) > 12, "too few kinds of faults were played: raise CELLS"
    ends = {row.exit_status for row in store.rows().values()}
    assert ends == {ExitStatus.TURNS_SPENT, ExitStatus.CONTEXT_SPENT, ExitStatus.FORMAT_ERROR}

"""Five hundred cells of a provider that fails at every fifth turn, under a cap in dollars and a rate, by the command.

    python benchmarks/faults.py [--cells N] [--out FILE.json]

The provider is the server of the tests, on loopback. One fault in three outlasts the model's own retries, so its cell
is parked and comes back. The cap is first too low, so that the sweep stops there; the same command with a higher one
goes on. What the records must say is worked out from the server's log alone. CPU seconds are of the command and all
that it has started, but not of the server.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from common import ROOT, header, measure, write

sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from faulty_provider import PRICE, answered, overrides, paid_for_nothing, play, wrong  # noqa: E402
from finished import assert_each_once, assert_ledger_exact, assert_no_reply_paid_twice  # noqa: E402
from model_server import Faults, Limit, ModelServer, model_server  # noqa: E402

from orchestrator.config.experiment import load_experiment  # noqa: E402
from orchestrator.limits.ledger import NUSD, read_spending  # noqa: E402
from orchestrator.limits.limits import limits_root  # noqa: E402
from orchestrator.plan import make_plan  # noqa: E402
from orchestrator.store.claims import Outcome, history  # noqa: E402
from orchestrator.store.store import Store  # noqa: E402

Json = dict[str, Any]
PER_MIN = 900
USD_PER_CELL = 0.025
"""About what a cell comes to; the first cap is half of it for each, the second three times."""
START = """
from agents.models.litellm_client import client
import orchestrator.sweep.worker
client()
"""


def ran(command: list[str]) -> Json:
    """Exit code, CPU and wall seconds of a command and all that it has waited for."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return {"code": code, "cpu_s": usage.ru_utime + usage.ru_stime, "wall_s": time.perf_counter() - began}


def swept(server: ModelServer, cells: int, out: Path, cap_usd: float) -> tuple[Json, list[str]]:
    """One run under a cap; and the overrides that it was given."""
    asked = overrides(
        server.url, cells, f"model.requests_per_min={PER_MIN}", "model.max_attempts=2", f"limits.cost_usd={cap_usd}",
        "launcher=local", "launcher.workers=2", "launcher.agents=8",
    )  # fmt: skip
    found = ran([sys.executable, "-m", "orchestrator", "run", *asked, "--out", str(out)])
    return found | {"cap_usd": cap_usd, "server_usd": server.cost_usd(*PRICE), "charged_usd": charged_usd(out)}, asked


def charged_usd(out: Path) -> float:
    """What the ledgers add up to, requests in doubt at their worst."""
    paths = (limits_root(out / "faulty") / "ledgers").glob("*.jsonl")
    return sum(read_spending(path).total_nusd for path in paths) / NUSD


def faults(cells: int, out: Path) -> tuple[list[Json], Json]:
    """The measures and the samples of the sweep."""
    with model_server(
        play, faults=Faults(rate=0.2, seed=5, burst=3), limit=Limit(requests=PER_MIN, per_s=60.0)
    ) as server:
        server.retry_after_s = 0.2
        low, _ = swept(server, cells, out, round(USD_PER_CELL * cells / 2, 2))
        high, asked = swept(server, cells, out, round(USD_PER_CELL * cells * 3, 2))
    planned = make_plan(load_experiment(asked)).cells
    store = Store(out / "faulty")
    mistaken = wrong(store, planned, server)
    lost = [uid for uid in planned if not store.is_done(uid)]
    if not lost:
        assert_each_once(store, planned)
        assert_no_reply_paid_twice(store, planned, list(answered(server)), lost_max=0)
        assert_ledger_exact(store, planned, lost_max=paid_for_nothing(server))
    over = max(max(one["server_usd"], one["charged_usd"]) - one["cap_usd"] for one in (low, high))
    ends = Counter(claim.ended.outcome for uid in planned for claim in history(store.attempts_dir(uid)) if claim.ended)
    measures = [
        measure("cells whose record is what the server's log says", len(planned) - len(mistaken), "", ">=", cells),
        measure("cells lost", len(lost), "", "<=", 0),
        measure("replies paid twice", len(server.paid_twice()), "", "<=", 0),
        measure(f"requests beyond {PER_MIN} in any minute", max(0, server.most_in(60.0) - PER_MIN), "", "<=", 0),
        measure("requests that the server refused for its own limit", sum(one.over_limit for one in server.log), "",
                "<=", 0),
        measure("dollars beyond the cap, by the server or by the ledger", max(0.0, over), "USD", "<=", 0),
        measure("cells parked, times", ends[Outcome.PARKED], ""),
        measure("requests", len(server.log), ""),
    ]  # fmt: skip
    samples = {
        "runs": [low, high],
        "most_in_a_minute": server.most_in(60.0),
        "wrong": mistaken,
        "faults": dict(Counter(str(served.fault) for served in server.log).most_common()),
        "ends": dict(Counter(row.exit_status for row in store.rows().values()).most_common()),
        "claims": {str(outcome): count for outcome, count in ends.items()},
    }
    return measures, samples


def main() -> None:
    """Measure, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=500)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "faults.json")
    arguments = parser.parse_args()
    report = header("litellm", "openai")
    starts = [ran([sys.executable, "-c", START]) for _ in range(3)]
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        measures, samples = faults(arguments.cells, Path(folder))
    start = [
        measure(f"start of an agent's process with LiteLLM, {name}, median of three", statistics.median(values), "s",
                "<", 6)
        for name, values in (("CPU", [one["cpu_s"] for one in starts]), ("wall", [one["wall_s"] for one in starts]))
    ]  # fmt: skip
    report["measures"], report["samples"] = [*measures, *start], samples | {"starts": starts}
    write(report, arguments.out)


if __name__ == "__main__":
    main()

"""Whole sweeps against a provider on loopback, under caps and rates."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from model_server import Limit, call, model_server, says
from sweeps import sweep_of

from orchestrator.cli.main import main
from orchestrator.limits.ledger import read_spending
from orchestrator.limits.summary import summary
from orchestrator.store.store import Store
from orchestrator.sweep.run import Sweep, run

PRICE = (10.0, 1000.0)
"""Dollars per million tokens: a reply costs cents, so that a small cap is met soon."""
REPLY = says(call("get_gpu_specs"), prompt_tokens=1000, completion_tokens=50)


def sweep_at(folder: Path, url: str, *overrides: str) -> Sweep:
    return sweep_of(
        folder,
        "model=openai_compatible",
        "model.name=served",
        "model.litellm_model=openai/served",
        f"model.base_url={url}",
        f"model.price_input_usd_per_mtok={PRICE[0]}",
        f"model.price_output_usd_per_mtok={PRICE[1]}",
        "model.max_tokens=100",
        "model.takes_seed=true",
        "agent=tool_loop",
        "budget.turns=3",
        *overrides,
    )


def charged(store: Store) -> tuple[float, int]:
    """(dollars, requests in doubt) of all ledgers."""
    found = [read_spending(path) for path in (store.root / "limits" / "ledgers").glob("*.jsonl")]
    return sum(one.charged_nusd for one in found) / 1e9, sum(len(one.in_doubt) for one in found)


def test_a_sweep_stops_at_its_cap_and_a_higher_one_finishes_it(tmp_path: Path) -> None:
    with model_server([REPLY]) as server:
        shape = ("seed=range(0,8)", "launcher=inline")
        stopped = run(sweep_at(tmp_path, server.url, *shape, "limits.cost_usd=1.0"), io.StringIO())
        assert stopped.exit_code == 1 and 0 < stopped.missing < 8
        assert 0.8 < server.cost_usd(*PRICE) <= 1.0
        sweep = sweep_at(tmp_path, server.url, *shape, "limits.cost_usd=3.0")
        assert run(sweep, io.StringIO()).exit_code == 0
        assert len(server.log) == 24, "no reply was paid for twice"
        assert charged(sweep.store) == (pytest.approx(server.cost_usd(*PRICE)), 0)
        assert summary(sweep.store.root).cost_usd == pytest.approx(24 * 0.06)


def test_a_provider_that_bears_little_is_asked_little_though_no_limit_is_declared(tmp_path: Path) -> None:
    with model_server([REPLY], limit=Limit(requests=5, per_s=1.0)) as server:
        sweep = sweep_at(tmp_path, server.url, "seed=range(0,12)", "launcher=inline")
        assert run(sweep, io.StringIO()).exit_code == 0
        refused = sum(served.status == 429 for served in server.log)
        assert sum(served.replied for served in server.log) == 36
        assert 0 < refused < 20


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ["model.max_tokens=100"],
            "`price_output_usd_per_mtok: DOLLARS` to its file under conf/model/, or `price: free`",
        ),
        (["model.price=free", "model.max_tokens=null"], "add `max_tokens: TOKENS`"),
        (["model.price=free"], ""),
    ],
)
def test_a_model_without_a_price_is_refused_under_a_cap_before_anything_runs(
    overrides: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ["model=openai_compatible", "model.name=own", "model.litellm_model=openai/own", *overrides]
    code = main(["plan", "--out", str(tmp_path), "problem=24", "limits.cost_usd=5", *model])
    told = capsys.readouterr().err
    assert code == (2 if said else 0)
    assert said in told and told.count("\n") <= 1

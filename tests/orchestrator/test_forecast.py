"""What the cells that are left may cost, from budgets, prices and what comparable cells used."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cell import Record
from orchestrator.cli.main import main
from orchestrator.config.experiment import load_experiment
from orchestrator.forecast import Forecast, forecast
from orchestrator.plan import make_plan
from orchestrator.settings import LauncherKind, LauncherSettings
from orchestrator.store.index import Row
from orchestrator.store.store import Store

PRICED = ["model.name=mine", "model.litellm_model=openai/x", "model.kind=litellm"]
PRICED += ["model.price_input_usd_per_mtok=2", "model.price_output_usd_per_mtok=10"]


def of(outputs: Path, *overrides: str, workers: int = 2) -> Forecast:
    cells = make_plan(load_experiment(["problem=24", *overrides])).cells.values()
    return forecast(cells, outputs, LauncherSettings(kind=LauncherKind.local, workers=workers))


@pytest.fixture
def finished(finish_cell: Callable[..., Record], store: Store) -> Callable[..., list[Row]]:
    """`finished(model=..., cost_usd=[...])` lists finished cells with these costs, and 100 seconds for each dollar."""

    def finish(model: str, cost_usd: list[float | None], agent: str = "tool_loop") -> list[Row]:
        rows = []
        for seed, cost in enumerate(cost_usd):
            record = finish_cell(model=model, seed=seed, agent=agent)
            usage = dataclasses.replace(record.usage, cost_usd=cost, prompt_tokens=1000 * (seed + 1))
            changed = dataclasses.replace(record, usage=usage, wall_s=100.0 * (cost or 0.0), tools_s=7.0)
            store.add_to_index(changed, f"{model}-{agent}-{seed}")
            rows.append(Row.of(changed))
        return rows

    return finish


def test_the_same_model_agent_and_budget_say_what_a_cell_takes(
    store: Store, finished: Callable[..., list[Row]]
) -> None:
    costs = [0.1, 0.2, 0.4, 0.8, 1.6]
    rows = finished("mine", costs)
    finished("other", [50.0])
    found = of(store.root.parent, *PRICED, "budget=small", "seed=range(0,10)")
    low, median, high = statistics.quantiles(costs, n=4, method="inclusive")
    assert found.cost_usd.median == pytest.approx(10 * median)
    assert (found.cost_usd.low, found.cost_usd.high) == (pytest.approx(10 * low), pytest.approx(10 * high))
    assert found.tokens.median == 10 * statistics.median(
        (r.prompt_tokens or 0) + (r.completion_tokens or 0) for r in rows
    )
    assert found.wall_s == pytest.approx(10 * 100 * median / 2) and found.loops == 2
    assert found.gpu_s.median == 0.0  # judged on the CPU
    assert (found.basis, found.comparable_cells) == ({"model, agent and budget": 10}, 5)


def test_another_budget_of_the_same_model_is_second_best_and_nothing_is_unknown(
    store: Store, finished: Callable[..., list[Row]]
) -> None:
    finished("mine", [0.5])
    near = of(store.root.parent, *PRICED, "budget=standard")
    assert near.basis == {"model": 1} and near.cost_usd.median == near.cost_usd.high == 0.5
    far = of(store.root.parent, "model=grok-4.3", "seed=0,1")
    assert far.basis == {"unknown": 2} and far.wall_s is None
    assert far.cost_usd.unknown_cells == far.tokens.unknown_cells == far.work_s.unknown_cells == 2


def test_a_cell_without_a_stated_cost_is_no_free_one(store: Store, finished: Callable[..., list[Row]]) -> None:
    finished("mine", [None, 0.4])
    assert of(store.root.parent, *PRICED, "budget=small").cost_usd.median == 0.4
    finished("grok-4.3", [None])
    unknown = of(store.root.parent, "model=grok-4.3", "budget=small")
    assert unknown.basis == {"model, agent and budget": 1} and unknown.cost_usd.unknown_cells == 1
    assert unknown.tokens.unknown_cells == 0


def test_what_asks_no_model_or_replays_one_costs_nothing(tmp_path: Path) -> None:
    baseline = of(tmp_path, "agent=baseline", "model=grok-4.3")
    assert (baseline.tokens.median, baseline.cost_usd.median, baseline.tokens.unknown_cells) == (0, 0, 0)
    assert baseline.worst_tokens.value == baseline.worst_cost_usd.value == 0
    replayed = of(tmp_path, "model=recorded")
    assert replayed.cost_usd.unknown_cells == 0 and replayed.tokens.unknown_cells == 1


def test_a_cell_that_asks_no_model_says_nothing_about_one_that_does(
    store: Store, finish_cell: Callable[..., Record]
) -> None:
    record = finish_cell(model="mine", agent="baseline")
    store.add_to_index(dataclasses.replace(record, turns=0), "w")
    assert of(store.root.parent, *PRICED).basis == {"unknown": 1}
    assert of(store.root.parent, *PRICED, "agent=baseline").basis == {"model": 1}


@pytest.mark.parametrize(
    ("budget", "dollars", "tokens"),
    [
        (["budget.cost_usd=0.5"], 0.5, None),
        (["budget.tokens=1000000"], 10.0, 1e6),
        (["budget.tokens=1000000", "budget.cost_usd=3"], 3.0, 1e6),
        (["budget.turns=4", "model.context_tokens=1000"], 0.04, 4000),
        (["budget.turns=4", "model.context_tokens=1000", "budget.tokens=100"], 0.001, 100),
        ([], None, None),
    ],
)
def test_the_worst_case_is_the_budget_at_the_highest_price(
    tmp_path: Path, budget: list[str], dollars: float | None, tokens: float | None
) -> None:
    found = of(tmp_path, *PRICED, *budget, "seed=0,1,2")
    for worst, one in ((found.worst_cost_usd, dollars), (found.worst_tokens, tokens)):
        assert worst.unknown_cells == (3 if one is None else 0)
        assert worst.value == (0 if one is None else pytest.approx(3 * one))


def test_a_free_model_costs_nothing_and_uses_an_unknown_number_of_tokens(tmp_path: Path) -> None:
    free = ["model.name=mine", "model.litellm_model=openai/x", "model.kind=litellm", "model.price=free"]
    found = of(tmp_path, *free)
    assert (found.cost_usd.median, found.cost_usd.unknown_cells, found.tokens.unknown_cells) == (0, 0, 1)
    assert (found.worst_cost_usd.value, found.worst_cost_usd.unknown_cells) == (0, 0)


def test_tokens_without_a_price_have_no_worst_cost(tmp_path: Path) -> None:
    assert of(tmp_path, "model=grok-4.3", "budget.tokens=1000").worst_cost_usd.unknown_cells == 1


def test_plan_shows_the_forecast_and_says_what_is_unknown(
    store: Store, finished: Callable[..., list[Row]], capsys: pytest.CaptureFixture[str]
) -> None:
    finished("mine", [0.1, 0.2, 0.3])
    arguments = ["plan", "problem=24", *PRICED, "budget=small", "budget.cost_usd=0.5,null", "seed=0,1"]
    assert main([*arguments, "--out", str(store.root.parent)]) == 0
    text = capsys.readouterr().out
    assert "cost $0.80 ($0.60 to $1.00)" in text and "GPU-hours 0;" in text
    assert "from 3 finished cells: 2 cells by model; 2 cells by model, agent and budget" in text
    assert "at most, by budgets and prices: tokens without limit; cost $1.00 and 2 cells without limit or price" in text
    assert main(["plan", "problem=24", "model=grok-4.3", "--out", str(store.root.parent)]) == 0
    text = capsys.readouterr().out
    assert "tokens unknown; cost unknown" in text and "nothing is known of 1 cell:" in text

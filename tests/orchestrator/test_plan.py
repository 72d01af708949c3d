"""Cells: how many, in which order, under which names, and equal to what Hydra itself composes."""

import dataclasses
import itertools
import json
import random
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.config.experiment import CONF, ConfigError, Experiment, load_experiment
from orchestrator.config.verify import verify
from orchestrator.plan import make_plan


@pytest.fixture(scope="module")
def quickstart() -> Experiment:
    return load_experiment(["experiment=quickstart"])


def test_quickstart_has_twenty_four_cells(quickstart: Experiment) -> None:
    plan = make_plan(quickstart)
    assert len(plan.cells) == 24
    assert plan.formula == "3 problems x 2 agents x 2 budgets x 2 seeds = 24"


def test_cells_come_replicate_by_replicate(quickstart: Experiment) -> None:
    """Wherever a sweep stops, no combination is more than one replicate ahead."""
    cells = list(make_plan(quickstart).cells.values())
    assert [cell.seed for cell in cells] == [0] * 12 + [1] * 12
    points = [(cell.problem, cell.agent, cell.budget) for cell in cells]
    assert len(set(points[:12])) == 12
    assert points[:12] == points[12:]


def test_uids_are_those_of_the_cells(quickstart: Experiment) -> None:
    for uid, cell in make_plan(quickstart).cells.items():
        assert uid == cell.uid


def test_a_cell_without_a_recording_has_its_uid_too() -> None:
    """Its identity ends with the seed, which the uid's text is put together around."""
    overrides = ["problem=24", "model=grok-4.3", "seed=0,7"]
    for uid, cell in make_plan(load_experiment(overrides)).cells.items():
        assert uid == cell.uid
        assert "transcript_sha256" not in cell.identity


def test_the_union_of_grids_holds_each_cell_once(quickstart: Experiment) -> None:
    grid = quickstart.grids[0]
    more = dataclasses.replace(grid, problem=grid.problem[:1], seed=[1, 2])
    plan = make_plan(dataclasses.replace(quickstart, grids=[grid, more]))
    assert len(plan.cells) == 24 + 4
    assert plan.formula.endswith(" x 2 seeds + 2 agents x 2 budgets x 2 seeds - 4 duplicates = 28")
    assert [cell.seed for cell in plan.cells.values()] == [0] * 12 + [1] * 12 + [2] * 4


def test_counts_agree_with_brute_force(quickstart: Experiment) -> None:
    rng = random.Random(0)
    full = quickstart.grids[0]
    for _ in range(50):
        grids = [
            dataclasses.replace(
                full,
                problem=rng.sample(full.problem, rng.randint(1, 3)),
                agent=rng.sample(full.agent, rng.randint(1, 2)),
                budget=rng.sample(full.budget, rng.randint(1, 2)),
                seed=rng.sample(range(5), rng.randint(1, 5)),
            )
            for _ in range(rng.randint(1, 3))
        ]
        names = {
            (p.label, a.label, b.label, s)
            for grid in grids
            for p, a, b, s in itertools.product(grid.problem, grid.agent, grid.budget, grid.seed)
        }
        plan = make_plan(dataclasses.replace(quickstart, grids=grids))
        found = [(cell.problem, cell.agent, cell.budget, cell.seed) for cell in plan.cells.values()]
        assert len(found) == len(set(found))
        assert set(found) == names
        assert plan.formula.endswith(f" = {len(names)}")


def test_too_many_cells_are_refused_before_they_are_made(quickstart: Experiment) -> None:
    grid = dataclasses.replace(quickstart.grids[0], seed=range(100_000))
    with pytest.raises(ConfigError, match=r"1,200,000 cells, and the limit is 1,000,000"):
        make_plan(dataclasses.replace(quickstart, grids=[grid]))


AXES: dict[str, list[str]] = {
    "model": ["recorded", "grok-4.3"],
    "model.temperature": ["0.1", "null"],
    "agent": ["tool_loop", "baseline"],
    "agent.tools": ["all", "[compile_kernel,submit_kernel]"],
    "budget": ["small", "standard"],
    "budget.turns": ["3", "15"],
    "budget.wall_s": ["60", "1e3"],
    "evaluation.shapes": ["fixed", "jitter"],
    "evaluation.timing.budget_s": ["1", "2.5"],
    "seed": ["0", "5"],
}


def swept() -> Experiment:
    overrides = [f"{key}={','.join(values)}" for key, values in AXES.items()]
    return load_experiment([*overrides, "problem=24", "model.base_url='http://a b/v1'"])


def test_sampled_cells_equal_what_hydra_composes() -> None:
    """The product formed in Python against the whole config composed by Hydra with one cell's own overrides."""
    experiment = swept()
    plan = make_plan(experiment)
    assert len(plan.cells) == 2 ** len(AXES)
    verified = verify(experiment, plan, 12)
    assert verified.cells == len(verified.compose_s) == 12 and min(verified.compose_s) > 0


def test_zipped_cells_equal_what_hydra_composes() -> None:
    experiment = load_experiment(
        ["agent=baseline", "zip={problem:[23,24],budget.turns:[3,5],seed:[1,2]}", "budget=small"]
    )
    assert verify(experiment, make_plan(experiment), 50).cells == 2


def test_a_cell_that_hydra_composes_otherwise_is_shown() -> None:
    quickstart = load_experiment(["experiment=quickstart"])
    plan = make_plan(quickstart)
    for cell in plan.cells.values():
        cell.runtime["model"]["base_url"] = "http://elsewhere"
    with pytest.raises(ConfigError, match=r"Hydra composes \S+ with .* the plan with .*http://elsewhere"):
        verify(quickstart, plan, 1)
    grids = [dataclasses.replace(quickstart.grids[0], seed=[9])]
    with pytest.raises(ConfigError, match=r"Hydra composes \S+-s9-\S+ as .* the plan does not"):
        verify(dataclasses.replace(quickstart, grids=grids), plan, 1)


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_twelve_thousand_cells_are_planned_at_once(tmp_path: Path, form: list[str]) -> None:
    command = [sys.executable, "-m", "orchestrator", "plan", "experiment=quickstart", "seed=range(0,1000)", *form]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*command, "--out", str(tmp_path)], capture_output=True, text=True, check=True, cwd=CONF.parent
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if form:
        data = json.loads(done.stdout)
        assert (data["cells_total"], data["pending"], len(data["cells"])) == (12_000, 12_000, 12_000)
        assert len({cell["uid"] for cell in data["cells"]}) == 12_000
    else:
        assert "1,000 seeds = 12,000\n0 done, 12,000 pending" in done.stdout
        assert len(done.stdout.splitlines()) < 30
    assert cpu_s < 3.0  # of one thread, so seconds of waiting too, unless others have the core
    assert not list(tmp_path.iterdir())

"""Products, zips, exclusions and globs in one experiment: which cells they give, and how many."""

from __future__ import annotations

import dataclasses
import itertools
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser

from orchestrator.config.compose import composer
from orchestrator.config.experiment import CONF, ConfigError, load_experiment
from orchestrator.config.grammar import parse_grid, spelled
from orchestrator.config.grid import build_grid
from orchestrator.plan import Plan, make_plan

Combination = tuple[str, str, int, int]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four problems in two levels, in KernelBench's form."""
    root = tmp_path_factory.mktemp("library")
    source = (CONF.parent / "problems" / "level1" / "24_row_softmax.py").read_text()
    for name in ("level1/1_a", "level1/2_b", "level2/1_c", "level2/2_d"):
        path = root / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
    return root


PROBLEMS = ["level1/1_a", "level1/2_b", "level2/1_c", "level2/2_d"]


def planned(library: Path, sweep: Any, *overrides: str) -> Plan:
    """The plan of an experiment file with this `sweep:`."""
    conf = Path(shutil.copytree(CONF, library / "conf", dirs_exist_ok=True))
    problem = {"source": "kernelbench", "path": str(library)}
    plain = {"name": "study", "problem": problem, "sweep": sweep}
    (conf / "experiment" / "study.yaml").write_text(f"# @package _global_\n{yaml.safe_dump(plain)}")
    return make_plan(load_experiment(["experiment=study", *overrides], conf=conf))


def combinations(plan: Plan) -> list[Combination]:
    return [
        (cell.problem, cell.identity["budget"]["name"], cell.identity["budget"]["turns"], cell.seed)
        for cell in plan.cells.values()
    ]


def test_a_plan_says_how_its_number_comes_about(library: Path) -> None:
    sweep = [
        {
            "problem": "glob(level1/*),level2/1",
            "model.name": ["a", "b", "c", "d"],
            "agent": "baseline",
            "exclude": [{"problem": "glob(level1/*)", "model.name": "a"}],
        },
        {
            "problem": "level2/2",
            "agent": "baseline",
            "zip": {"model.name": list("vwxyz"), "budget.turns": "range(1,6)"},
        },
    ]
    plan = planned(library, sweep)
    assert plan.formula == "3 problems x 4 models - 2 excluded + zip(5) = 15"
    zipped = [(c.model, c.identity["budget"]["turns"]) for c in plan.cells.values() if c.problem == "level2/2_d"]
    assert zipped == [("v", 1), ("w", 2), ("x", 3), ("y", 4), ("z", 5)]


def test_keys_of_one_group_are_composed_together_whether_zipped_or_not(library: Path) -> None:
    sweep = {
        "problem": "level1/1",
        "agent": "baseline",
        "zip": {"seed": [7, 8], "budget.turns": [3, 5]},
        "budget": "small,standard",
        "budget.wall_s": [60, 90],
    }
    plan = planned(library, sweep)
    found = [
        (*one[1:], cell.identity["budget"]["wall_s"])
        for one, cell in zip(combinations(plan), plan.cells.values(), strict=True)
    ]
    expected = {
        (name, turns, seed, wall_s)
        for (seed, turns), name, wall_s in itertools.product([(7, 3), (8, 5)], ["small", "standard"], [60.0, 90.0])
    }
    assert set(found) == expected and len(found) == len(expected)
    assert plan.formula == "zip(8) = 8"


def test_the_order_in_which_keys_are_given_makes_no_other_cell(library: Path) -> None:
    keys = ["budget.turns=3", "budget.wall_s=60"]
    one, other = (
        planned(library, {"problem": "level1/1", "agent": "baseline"}, *given) for given in (keys, keys[::-1])
    )
    assert list(one.cells) == list(other.cells)


def test_the_command_line_replaces_axes_wherever_they_stand_and_leaves_out_more(library: Path) -> None:
    sweep = {"problem": "glob(*)", "agent": "baseline", "zip": {"budget": ["small", "standard"], "seed": [0, 1]}}
    assert planned(library, sweep).formula == "4 problems x zip(2) = 8"
    assert planned(library, sweep, "seed=0,1,2").formula == "4 problems x zip(2) x 3 seeds = 24"
    pairs = planned(library, sweep, "zip={problem:[level1/1,level2/1],seed:[5,6]}")
    assert {(one[0], one[3]) for one in combinations(pairs)} == {("level1/1_a", 5), ("level2/1_c", 6)}
    fewer = planned(library, sweep, "exclude={problem:'glob(level2/*)',seed:1}")
    assert fewer.formula == "4 problems x zip(2) - 2 excluded = 6"


def drawn_grid(rng: random.Random) -> tuple[dict[str, Any], list[Combination]]:
    """A random grid as `sweep:` says it, and its combinations by brute force, repetitions included."""
    columns: dict[str, list[Any]] = {
        "problem": rng.sample(PROBLEMS, rng.randint(1, 4)),
        "budget": rng.sample(["small", "standard"], rng.randint(1, 2)),
        "budget.turns": rng.sample(range(1, 6), rng.randint(1, 3)),
        "seed": rng.sample(range(4), rng.randint(1, 4)),
    }
    zipped = rng.sample(list(columns), rng.choice([0, 0, 2, 3]))
    grid: dict[str, Any] = {"agent": "baseline"}
    rows: list[dict[str, Any]] = [{}]
    if zipped:
        length = rng.randint(1, 4)
        together = {key: [rng.choice(columns[key]) for _ in range(length)] for key in zipped}
        grid["zip"] = together
        rows = [dict(zip(together, row, strict=True)) for row in zip(*together.values(), strict=True)]
    for key in columns.keys() - set(zipped):
        grid[key] = columns[key]
        rows = [{**row, key: value} for row in rows for value in columns[key]]
    rules = [
        {key: rng.sample(values, rng.randint(1, len(values))) for key, values in columns.items() if rng.random() < 0.5}
        for _ in range(rng.randint(0, 2))
    ]
    rules = [rule for rule in rules if rule]
    if rules:
        grid["exclude"] = rules
    kept = [row for row in rows if not any(all(row[key] in rule[key] for key in rule) for rule in rules)]
    return grid, [(row["problem"], row["budget"], row["budget.turns"], row["seed"]) for row in kept]


def test_random_sweeps_have_the_cells_that_brute_force_counts(library: Path) -> None:
    rng = random.Random(4)
    experiment = load_experiment(["problem=24"])
    source = {"problem.source": "kernelbench", "problem.path": str(library)}
    nonempty = 0
    with composer(CONF, {}) as composed:
        for _ in range(40):
            drawn = [drawn_grid(rng) for _ in range(rng.randint(1, 3))]
            expected = [one for _, combined in drawn for one in combined]
            grids = [build_grid(composed, parse_grid(grid), source) for grid, _ in drawn]
            study = dataclasses.replace(experiment, grids=grids)
            if not expected:
                with pytest.raises(ConfigError, match=r"exclude leaves out every cell"):
                    make_plan(study)
                continue
            nonempty += 1
            plan = make_plan(study)
            found = combinations(plan)
            assert len(found) == len(set(found)) and set(found) == set(expected), drawn
            seeds = [one[3] for one in found]
            assert seeds == sorted(seeds, key=seeds.index)  # replicate by replicate
            assert value_of(plan.formula) == len(set(expected)), plan.formula
    assert nonempty > 30


def value_of(formula: str) -> int:
    """The left side of a formula, computed; checked against its right side."""
    left, right = formula.rsplit(" = ", 1)
    total = 0
    for term in left.replace(" - ", " + -").split(" + "):
        sign, words = (-1, term[1:]) if term.startswith("-") else (1, term)
        product = 1
        for factor in words.split(" x "):
            number = factor.removeprefix("zip(").split(")")[0].split(" ")[0]
            product *= int(number.replace(",", ""))
        total += sign * product
    assert total == int(right.replace(",", "")), formula
    return total


REFUSED = [
    ({"zip": {"model": ["recorded", "grok-4.3"], "seed": [0, 1, 2]}}, ["model has 2", "seed has 3", "equally many"]),
    ({"zip": {"seed": [0, 1]}, "seed": [2]}, ["seed is swept twice"]),
    ({"zip": [{"seed": [0]}, {"seed": [1]}]}, ["seed is swept twice"]),
    ({"zip": 3}, ["zip takes axes with their values", "3"]),
    ({"zip": {"modle": ["recorded"]}}, ["did you mean model?"]),
    ({"zip": {"launcher.workers": [1, 2]}}, ["one value for the whole experiment"]),
    ({"zip": {"model.base_url": ["a", "b"]}}, ["changes no result"]),
    ({"exclude": [{}]}, ["exclude takes axes with their values"]),
    ({"exclude": {"model": "grok"}}, ["model has no option 'grok'", "did you mean grok-4.3?"]),
    ({"exclude": {"problem": "nosuch"}}, ["nosuch"]),
    ({"exclude": {"budget.turns": "many"}}, ["budget.turns cannot be 'many'", "a whole number"]),
    ({"exclude": {"problem": "glob(*)"}}, ["exclude leaves out every cell"]),
    ({"seed": "${oc.env:SEED}"}, ["sweep.seed is an interpolation"]),
    ({"agent.tools": [["submit_kernel", "${now:%H}"]]}, ["sweep.agent.tools.0.1 is an interpolation"]),
]


@pytest.mark.parametrize(("sweep", "words"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_swept_is_refused_in_one_sentence(library: Path, sweep: Any, words: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        planned(library, {"agent": "baseline", **sweep})
    assert "\n" not in str(refusal.value)
    for word in words:
        assert word in str(refusal.value)


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("budget/bad.yaml", "name: bad\nturns: ${oc.decode:${oc.env:TURNS}}", "budget.turns is an interpolation"),
        ("agent/bad.yaml", "name: bad\ntools:\n  - submit_kernel\n  - ${now:%H}", "agent.tools.1 is an interpolation"),
        ("model/bad.yaml", "name: bad\nlitellm_model: a/${..budget.name}", "model.litellm_model is an interpolation"),
        ("agent/bad.yaml", "# @package _global_\nseed: 3\nagent:\n  name: bad", "agent=bad also changes seed"),
        ("budget/bad.yaml", "defaults:\n  - override /model: grok-4.3", "budget"),
    ],
)
def test_options_that_reach_beyond_their_group_are_refused(tmp_path: Path, path: str, text: str, words: str) -> None:
    conf = Path(shutil.copytree(CONF, tmp_path / "conf"))
    (conf / path).write_text(f"{text}\n")
    with pytest.raises(ConfigError) as refusal:
        load_experiment(["problem=24", f"{path.split('/')[0]}=bad"], conf=conf)
    assert words in str(refusal.value) and "\n" not in str(refusal.value)


NASTY = ["", "a b", "it's", '"', "\\", "\\'", "a\\", "x,y", "[1]", "null", "1", "$x", "ä=ö", "{a:b}", "glob(*)"]


@pytest.mark.parametrize("value", [*NASTY, None, True, 3, 0.1, 1e-9, NASTY, [1, None], {"a": ["b,c"]}], ids=repr)
def test_values_are_spelled_as_the_command_line_reads_them(value: Any) -> None:
    override = OverridesParser.create().parse_override(f"key={spelled(value)}")
    assert override.value() == value and type(override.value()) is type(value)

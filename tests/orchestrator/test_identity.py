"""Stores of older versions, what is new in a plan and why, and `explain`."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cell import SCHEMA_VERSION, Cell, Record
from orchestrator.cli.main import main
from orchestrator.config.experiment import load_experiment
from orchestrator.diff import Nearest, changes
from orchestrator.identity import leaves, modern, moves, recognise
from orchestrator.plan import VERSIONS, Plan, make_plan
from orchestrator.report.report import write_report
from orchestrator.store.layouts import holds_older_cells, remember_layout
from orchestrator.store.store import Store
from orchestrator.sweep.status import collect

VERSION1 = Path(__file__).parents[1] / "data" / "stores" / "version1"
"""Made by `run` of the first version: a finished baseline cell, a finished and an interrupted tool_loop cell."""
SOURCES = ("prompt_sha256", "transcript_sha256", "problem")
"""Hashes of texts that have been edited since."""


@pytest.fixture
def old_store(tmp_path: Path) -> Store:
    return Store(Path(shutil.copytree(VERSION1, tmp_path / "version1")))


def plan_over_old_texts(store: Store, **changed: object) -> Plan:
    """What this version plans for the old experiment, had prompt, recording and problem not been edited since."""
    overrides = ["problem=24", "agent=baseline,tool_loop", "budget.turns=2", "seed=0,1"]
    overrides += ["evaluation.timing.budget_s=0.2", "evaluation.draws=1"]
    plan = make_plan(load_experiment(overrides))
    stored = store.read_cell(next(iter(store.begun()))).identity
    then = {key: stored[key] for key in SOURCES} | {"evaluator_version": VERSIONS["evaluator_version"]} | changed
    cells = [dataclasses.replace(cell, identity={**cell.identity, **then}) for cell in plan.cells.values()]
    return dataclasses.replace(plan, cells={cell.uid: cell for cell in cells})


@pytest.fixture
def as_judged_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let today's evaluator have the version that the old cells' had, so that this is not what differs."""
    monkeypatch.setitem(VERSIONS, "evaluator_version", 1)


@pytest.mark.usefixtures("as_judged_now")
def test_a_store_of_the_first_version_opens_and_counts_right(old_store: Store) -> None:
    assert SCHEMA_VERSION > 1
    rows = old_store.rows()
    assert sorted(row.agent for row in rows.values()) == ["baseline", "tool_loop"]
    assert old_store.unindexed() == []
    for uid in rows:
        record = old_store.read_record(uid)
        assert record is not None and record.schema_version == 1 and record.cell.uid == uid
    known = recognise(plan_over_old_texts(old_store), old_store)
    assert known.renamed == 3 and known.strangers == {} and known.judged_before == {}
    assert len(known.plan.cells) == 4 and old_store.begun() <= known.plan.cells.keys()
    status = collect(old_store, known.plan.cells)
    assert (status.planned, status.done_total, status.untouched) == (4, 2, 1)


def test_a_store_of_the_first_version_gets_its_report(old_store: Store) -> None:
    page = write_report(old_store).read_text(encoding="utf-8")
    assert "kernelsweep run name=version1" in page and "Last launched at git cannot read" in page


@pytest.mark.usefixtures("as_judged_now")
def test_a_store_of_this_version_alone_is_not_searched_and_an_older_one_always_is(
    old_store: Store, tmp_path: Path
) -> None:
    plan = plan_over_old_texts(old_store)
    assert holds_older_cells(old_store)
    remember_layout(old_store)
    remember_layout(old_store)
    assert holds_older_cells(old_store) and recognise(plan, old_store).renamed == 3
    new = Store(tmp_path / "new")
    remember_layout(new)
    for cell in cells("budget.turns=15").values():
        new.write_cell(cell)
    assert not holds_older_cells(new)
    planned = make_plan(load_experiment(["problem=24", "budget.turns=20"]))
    assert recognise(planned, new).strangers == {}
    assert len(recognise(planned, new, whole=True).strangers) == 2


@pytest.mark.usefixtures("as_judged_now")
def test_cells_of_an_older_version_keep_their_names_and_the_present_endpoints(old_store: Store) -> None:
    plan = plan_over_old_texts(old_store)
    for cell in plan.cells.values():
        cell.runtime["model"]["base_url"] = "http://new/v1"
    for uid in old_store.begun():
        cell = recognise(plan, old_store).plan.cells[uid]
        assert cell.identity["schema_version"] == 1
        assert cell.runtime["model"]["base_url"] == "http://new/v1"


@pytest.mark.usefixtures("as_judged_now")
def test_an_older_cell_that_differs_is_not_taken_for_a_planned_one(old_store: Store) -> None:
    plan = plan_over_old_texts(old_store, prompt_sha256="0" * 64)
    known = recognise(plan, old_store)
    assert known.plan.cells.keys() == plan.cells.keys() and known.renamed == 0
    assert known.strangers.keys() == old_store.begun()


@pytest.mark.usefixtures("as_judged_now")
def test_cells_that_this_version_does_not_know_leave_a_doubt(old_store: Store) -> None:
    uid = next(iter(old_store.begun()))
    cell = old_store.read_cell(uid)
    cell.identity["budget"]["no_such_field"] = 3
    assert modern(cell) is None
    path = old_store.cell_dir(uid) / "cell.json"
    path.write_text(path.read_text().replace('"turns": 2', '"turns": 2, "no_such_field": 3'))
    broken = next(other for other in old_store.begun() if other != uid)
    (old_store.cell_dir(broken) / "cell.json").write_text("{")
    known = recognise(plan_over_old_texts(Store(VERSION1)), old_store)
    assert known.foreign == sorted([uid, broken]) and known.judged_before == {}
    assert "2 cells of the store" in (known.doubt() or "") and known.foreign[0] in (known.doubt() or "")


def test_cells_of_another_evaluator_are_never_silently_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    overrides = ["problem=24", "agent=baseline", "seed=0,1", "tracking=none"]
    [cell, _] = make_plan(load_experiment(overrides)).cells.values()
    judged = dataclasses.replace(cell, identity={**cell.identity, "evaluator_version": 0})
    store = Store(tmp_path / "adhoc")
    store.write_cell(judged)
    store.record_path(judged.uid).write_text("{}")
    assert main(["run", *overrides, "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert f"1 cell of the plan done under another version of the evaluator: {judged.uid}" in said
    assert "--again" in said and said.count("\n") == 1
    assert not (store.root / "jobs").exists()
    assert main(["plan", *overrides, "--out", str(tmp_path)]) == 0
    assert "another version of the evaluator" in capsys.readouterr().out


def cells(*overrides: str) -> dict[str, Cell]:
    return make_plan(load_experiment(["problem=23,24", *overrides])).cells


def counted(new: dict[str, Cell], stored: dict[str, Cell]) -> dict[str, int]:
    fresh = {uid: cell for uid, cell in new.items() if uid not in stored}
    return {change.cause: len(change.uids) for change in changes(fresh, stored.values())}


def test_new_cells_are_grouped_by_the_field_that_moved() -> None:
    stored = cells("budget.turns=15", "seed=range(0,4)")
    assert counted(cells("budget.turns=20", "seed=range(0,4)"), stored) == {"budget.turns 15 -> 20": 8}
    assert counted(cells("seed=range(0,6)"), stored) == {"seed 4 is new": 2, "seed 5 is new": 2}
    assert counted(cells("model=recorded,grok-4.3", "seed=0"), stored) == {"model recorded -> grok-4.3": 2}
    assert counted(cells("agent=baseline", "seed=0"), stored) == {"agent tool_loop -> baseline": 2}
    assert counted(cells("seed=0"), {}) == {"the store is empty": 2}
    both = ["budget.turns=15,20", "evaluation.draws=5,6", "seed=0"]
    assert counted(cells(*both), stored) == {
        "evaluation.draws 5 -> 6": 2,
        "budget.turns 15 -> 20": 2,
        "budget.turns 15 -> 20, evaluation.draws 5 -> 6": 2,
    }


def test_a_new_problem_and_an_edited_one_are_told_apart() -> None:
    stored = make_plan(load_experiment(["problem=24"])).cells
    assert counted(cells(), stored) == {"problem level1/23_virtual_all_reduce_mean is new": 1}
    edited = {}
    for cell in stored.values():
        problem = {**cell.identity["problem"], "sha256": "ab" * 32}
        other = dataclasses.replace(cell, identity={**cell.identity, "problem": problem})
        edited[other.uid] = other
    [cause] = counted(edited, stored)
    assert re.fullmatch(r"problem\.sha256 [0-9a-f]{12} -> abababababab", cause)


def test_the_nearest_cell_is_the_one_with_fewest_moved_leaves_and_the_same_seed() -> None:
    stored = cells("budget.turns=10,15", "evaluation.draws=3,5", "seed=0,1")
    [cell] = make_plan(
        load_experiment(["problem=24", "budget.turns=10", "evaluation.draws=4", "seed=1"])
    ).cells.values()
    near = Nearest(stored.values()).cell(cell)
    assert near is not None and near.seed == 1 and near.problem == cell.problem
    assert [move.leaf for move in moves(near.identity, cell.identity)] == ["evaluation.draws"]
    assert Nearest([]).cell(cell) is None


def test_moves_name_each_leaf_once() -> None:
    before = {"a": {"x": 1, "y": None}, "b": 2, "c": {"z": [1]}}
    after = {"a": {"x": 1.0, "y": None}, "b": 2, "d": 0}
    assert [str(move) for move in moves(before, after)] == [
        "a.x 1 -> 1.0",
        "c.z [1] -> (absent)",
        "d (absent) -> 0",
    ]
    assert moves(before, before) == []
    assert dict(leaves({"a": {"b": "x"}, "c": {}})) == {"a.b": '"x"', "c": "{}"}


def test_plan_diff_says_what_is_new_by_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path / "adhoc")
    for cell in cells("budget.turns=15", "seed=0,1").values():
        store.write_cell(cell)
    arguments = ["plan", "problem=23,24", "budget.turns=20", "seed=0,1", "--out", str(tmp_path), "--diff"]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "  4 cells new: budget.turns 15 -> 20\n  4 cells of the store not in this plan\n" in text
    assert main([*arguments, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [(change["cause"], len(change["uids"])) for change in data["changes"]] == [("budget.turns 15 -> 20", 4)]
    assert len(data["strangers"]) == 4
    assert main(["plan", "problem=23,24", "seed=0,1", "--out", str(tmp_path), "--diff"]) == 0
    assert "nothing is new" in capsys.readouterr().out


def test_explain_tells_identity_state_and_difference(
    finish_cell: Callable[..., Record], store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = finish_cell(seed=0), finish_cell(seed=1)
    out = ["--out", str(store.root.parent)]
    assert main(["explain", first.uid[-12:], *out]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{first.uid}\n  experiment {store.name}: done, PASSED at 2026-05-11")
    assert "  budget.turns = 4\n" in text and "what is planned is not known" in text
    assert main(["explain", first.uid, second.uid[-6:], *out]) == 0
    assert capsys.readouterr().out.rstrip().endswith(f"{second.uid}:\n  seed 1 -> 0\nwhat is planned is not known: "
        f"{store.root / 'experiment.yaml'} is not there")  # fmt: skip
    assert main(["explain", "recorded", *out]) == 2
    assert "could be any of" in capsys.readouterr().err
    assert main(["explain", "24_row_sofmax-recorded-tool_loop-small-s1", *out]) == 2
    said = capsys.readouterr().err
    assert "no cell is called" in said and f"the nearest are {second.uid}" in said and said.count("\n") == 1
    assert main(["explain", "a", "b", "c", *out]) == 2
    assert "compares two cells" in capsys.readouterr().err


def test_a_cell_that_several_experiments_have_is_asked_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [cell] = make_plan(load_experiment(["problem=24", "seed=0"])).cells.values()
    for name in ("one", "two"):
        Store(tmp_path / name).write_cell(cell)
    assert main(["explain", cell.uid, "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "several experiments, one, two; say which" in said and said.count("\n") == 1
    assert main(["explain", cell.uid, "problem=24", "seed=0", "name=two", "--out", str(tmp_path)]) == 0
    assert "experiment two: not begun" in capsys.readouterr().out


def test_explain_compares_a_planned_cell_with_what_is_stored_and_a_stored_one_with_the_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path / "adhoc")
    [stored] = make_plan(load_experiment(["problem=24", "budget.turns=15", "seed=0"])).cells.values()
    store.write_cell(stored)
    experiment = ["problem=24", "budget.turns=20", "seed=0", "--out", str(tmp_path)]
    assert main(["explain", "turns=20-s0", *experiment]) == 0
    text = capsys.readouterr().out
    assert "experiment adhoc: not begun\n" in text
    assert text.endswith(f"against the nearest cell of the store, {stored.uid}:\n  budget.turns 15 -> 20\n")
    assert main(["explain", stored.uid, *experiment, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["state"]["state"] == "untouched" and data["state"]["text"].endswith("not in the plan")
    assert data["moves"] == [{"leaf": "budget.turns", "before": "20", "after": "15"}]

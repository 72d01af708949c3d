"""MLflow mirrors the store: everything once, however often and wherever a sync was cut short."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.protocols import Reply, Usage
from agents.trajectory import Trajectory
from evaluation.serialize import to_plain
from orchestrator.cell import Cell, Record
from orchestrator.report.page import write_cell_page
from orchestrator.settings import TrackingSettings
from orchestrator.store.claims import Outcome, take
from orchestrator.store.leases import Lease, Watch
from orchestrator.store.store import Store
from orchestrator.tracking.cursor import cursor_path
from orchestrator.tracking.mirror import Mirror, MlflowClient, quiet
from orchestrator.tracking.projection import PARAMS_MAX, params
from orchestrator.tracking.sync import Tracker, TrackingBusyError, sync

TAKE = """
import pathlib, sys
from orchestrator.store.claims import take
from orchestrator.store.leases import Lease, Watch
folder, cell = map(pathlib.Path, sys.argv[1:])
with Lease(folder, "job") as lease:
    take(cell, lease, Watch())
"""
FinishCell = Callable[..., Record]
Run = dict[str, Any]


@pytest.fixture
def lease(store: Store) -> Iterator[Lease]:
    with Lease(store.leases_dir, "job") as opened:
        yield opened


def snapshot(settings: TrackingSettings) -> dict[str, Run]:
    """Every run by its name, with every point of every metric and all artifacts; ids left out."""
    with quiet():
        client = MlflowClient(settings.uri)
        experiment = client.get_experiment_by_name(settings.experiment)
        found: dict[str, Run] = {}
        for run in client.search_runs([experiment.experiment_id], max_results=1000):
            assert run.info.run_name not in found
            points = {
                key: [(m.step, m.timestamp, m.value) for m in client.get_metric_history(run.info.run_id, key)]
                for key in run.data.metrics
            }
            found[run.info.run_name] = {
                "status": run.info.status,
                "times": (run.info.start_time, run.info.end_time),
                "params": run.data.params,
                "metrics": points,
                "tags": {key: value for key, value in run.data.tags.items() if key != "mlflow.parentRunId"},
                "artifacts": sorted(artifacts(client, run.info.run_id)),
            }
        return found


def artifacts(client: MlflowClient, run_id: str, folder: str | None = None) -> Iterator[str]:
    for item in client.list_artifacts(run_id, folder):
        if item.is_dir:
            yield from artifacts(client, run_id, item.path)
        else:
            yield item.path


def open_cell(store: Store, record: Record, seed: int) -> Cell:
    """A cell like that of `record`, begun and not finished."""
    identity = {**record.cell.identity, "seed": seed}
    plain = {name: getattr(record.cell, name) for name in ("problem", "model", "agent", "budget", "evaluation")}
    cell = Cell(**plain, seed=seed, identity=identity)
    store.write_cell(cell)
    return cell


def say(trajectory: Trajectory, turn: int) -> None:
    trajectory.append("request", turn=turn, messages=[])
    trajectory.append("reply", turn=turn, reply=to_plain(Reply(usage=Usage(prompt_tokens=turn, completion_tokens=7))))


def test_a_finished_cell_is_all_there(store: Store, finish_cell: FinishCell, settings: TrackingSettings) -> None:
    record = finish_cell(cost_usd=0.01)
    write_cell_page(store, record.uid)
    (store.root / "experiment.yaml").write_text("name: pages\n")
    assert sync(store, settings) == 1
    runs = snapshot(settings)
    parent, child = runs[store.name], runs[record.uid]
    assert parent["status"] == child["status"] == "FINISHED"
    assert parent["tags"]["kernelsweep.cells.PASSED"] == "1" and "experiment.yaml" in parent["artifacts"]
    assert child["params"]["problem"] == record.cell.problem and child["params"]["budget.turns"] == "4"
    assert child["tags"]["kernelsweep.attempt"] == f"{record.uid}/1"
    assert child["tags"]["kernelsweep.verdict"] == "PASSED"
    values = {name: [value for *_, value in points] for name, points in child["metrics"].items()}
    steps = {name: [step for step, *_ in points] for name, points in child["metrics"].items()}
    assert values["turn/tokens_cached"] == [1024.0] * 3
    assert values["turn/tokens_in"] == [3396.0] * 3 and steps["turn/tokens_in"] == [1, 2, 3]
    assert values["turn/compiled"] == [0.0, 1.0, 1.0] and values["turn/correct"] == [0.0, 1.0, 1.0]
    assert steps["turn/best_speedup"] == [2, 3]
    assert values["turn/best_speedup"] == pytest.approx([1.79 / 2.6, 1.79 / 1.234])
    assert len(values["turn/latency_us"]) == 2 and values["turn/llm_s"] == [9.5] * 3
    assert record.grade is not None and record.grade.timing is not None
    assert values["final/speedup"] == [record.grade.timing.speedup] and values["final/passed"] == [1.0]
    assert {"record.json", "page.html", "trajectory.jsonl", "cell.json"} <= set(child["artifacts"])
    kernels = [name for name in child["artifacts"] if name.startswith("kernels/")]
    assert [name.split("_")[1:4:2] for name in kernels] == [["001", "compile"], ["002", "submit"], ["003", "submit"]]


def test_twice_equals_once_also_without_the_cursor(
    store: Store, finish_cell: FinishCell, settings: TrackingSettings
) -> None:
    for seed in range(2):
        finish_cell(seed=seed)
    assert sync(store, settings) == 2
    once = snapshot(settings)
    assert sync(store, settings) == 0
    assert sync(store, settings, rebuild=True) == 2
    cursor_path(store, settings.uri, settings.experiment).unlink()
    assert Tracker(store, settings).sync() == 2
    assert snapshot(settings) == once


def test_a_lost_database_is_written_again(store: Store, finish_cell: FinishCell, settings: TrackingSettings) -> None:
    finish_cell()
    sync(store, settings)
    once = snapshot(settings)
    path = Path(settings.uri.removeprefix("sqlite:///"))
    path.unlink()
    assert sync(store, settings) == 1
    assert snapshot(settings) == once


def test_a_running_cell_appears_with_its_turns_and_then_ends(
    store: Store, finish_cell: FinishCell, settings: TrackingSettings, lease: Lease
) -> None:
    cell = open_cell(store, finish_cell(), seed=7)
    claim = take(store.attempts_dir(cell.uid), lease, Watch())
    assert claim is not None
    tracker = Tracker(store, settings)
    with Trajectory(store.trajectory_path(cell.uid)) as trajectory:
        trajectory.append("start", attempt=1)
        say(trajectory, 0)
        say(trajectory, 1)
        assert tracker.sync() == 2
        runs = snapshot(settings)
        assert runs[cell.uid]["status"] == runs[store.name]["status"] == "RUNNING"
        assert [step for step, *_ in runs[cell.uid]["metrics"]["turn/tokens_in"]] == [0]  # turn 1 may still grow
        say(trajectory, 2)
    assert tracker.sync() == 1
    claim.end(Outcome.FAILED, "ProviderError: OUTAGE: no route to the provider")
    assert tracker.sync() == 1
    runs = snapshot(settings)
    assert (runs[cell.uid]["status"], runs[store.name]["status"]) == ("FAILED", "FINISHED")
    assert runs[cell.uid]["tags"]["kernelsweep.cause"].endswith("no route to the provider")
    assert [step for step, *_ in runs[cell.uid]["metrics"]["turn/tokens_in"]] == [0, 1, 2]


def test_a_dead_attempt_is_killed_and_the_next_holds_all_turns(
    store: Store, finish_cell: FinishCell, settings: TrackingSettings, lease: Lease
) -> None:
    cell = open_cell(store, finish_cell(), seed=8)
    subprocess.run([sys.executable, "-c", TAKE, str(store.leases_dir), str(store.attempts_dir(cell.uid))], check=True)
    with Trajectory(store.trajectory_path(cell.uid)) as trajectory:
        trajectory.append("start", attempt=1)
        say(trajectory, 0)
        sync(store, settings)
        assert snapshot(settings)[cell.uid]["status"] == "KILLED"
        assert take(store.attempts_dir(cell.uid), lease, Watch()) is not None
        trajectory.append("start", attempt=2)
        say(trajectory, 1)
        say(trajectory, 2)
    sync(store, settings)
    runs = snapshot(settings)
    first, second = runs[cell.uid], runs[f"{cell.uid} #2"]
    assert (first["status"], second["status"]) == ("KILLED", "RUNNING")
    assert [step for step, *_ in first["metrics"]["turn/tokens_in"]] == [0]
    assert [step for step, *_ in second["metrics"]["turn/tokens_in"]] == [0, 1]


class Cut(Exception):
    """Stands for a kill."""


def test_a_sync_cut_short_at_every_step_is_taken_up(
    store: Store, finish_cell: FinishCell, empty_database: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish_cell()
    left = 0

    def cut_when_spent(step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Cut
            return step(*arguments)

        return run

    for name in ("_create", "log", "upload", "upload_text", "set_state"):
        monkeypatch.setattr(Mirror, name, cut_when_spent(getattr(Mirror, name)))
    found: list[dict[str, Run]] = []
    cut = True
    while cut:
        path = tmp_path / f"{len(found)}" / "mlflow.db"
        path.parent.mkdir()
        path.write_bytes(empty_database)
        settings = TrackingSettings(uri=f"sqlite:///{path}")
        left, cut = len(found), False
        try:
            sync(store, settings)
        except Cut:
            left, cut = 1_000, True
            sync(store, settings)
        found.append(snapshot(settings))
    assert len(found) > 10
    assert all(runs == found[-1] for runs in found)


def test_one_process_writes_to_a_destination(store: Store, finish_cell: FinishCell, settings: TrackingSettings) -> None:
    finish_cell()
    folder = Path(settings.uri.removeprefix("sqlite:///") + ".owner")
    with Lease(folder, "another sweep") as other:
        owner = take(folder, other, Watch())
        assert owner is not None
        with pytest.raises(TrackingBusyError, match=f"process {owner.holder.pid}"):
            sync(store, settings)
        owner.end(Outcome.DONE)
        assert sync(store, settings) == 1


def test_nothing_to_do_loads_no_mlflow_and_nothing_tries_the_network(
    store: Store, finish_cell: FinishCell, settings: TrackingSettings
) -> None:
    finish_cell()
    script = """
import json, pathlib, socket, sys
from orchestrator.settings import TrackingSettings
from orchestrator.store.store import Store
from orchestrator.tracking.sync import sync
def refuse(*arguments): raise SystemExit(f"network: {arguments}")
socket.socket.connect = socket.getaddrinfo = refuse
count = sync(Store(pathlib.Path(sys.argv[1])), TrackingSettings(uri=sys.argv[2]))
print(json.dumps([count, "mlflow" in sys.modules, "torch" in sys.modules]))
"""
    command = [sys.executable, "-W", "error", "-c", script, str(store.root), settings.uri]
    for expected in ([1, True, False], [0, False, False]):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout) == expected
        assert "Warning" not in done.stderr


def test_params_are_bounded(finish_cell: FinishCell) -> None:
    cell = finish_cell().cell
    many = {f"field_{number:02d}": "x" * 1000 for number in range(100)}
    found = params(Cell(**{**{name: getattr(cell, name) for name in AXES}, "identity": {"model": many}}))
    assert len(found) == PARAMS_MAX and list(found)[:6] == AXES
    assert found["model.field_00"].startswith("sha256:")


AXES = ["problem", "model", "agent", "budget", "evaluation", "seed"]

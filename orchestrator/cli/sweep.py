"""The verbs about an experiment that is run: run, report, sync."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from evaluation.serialize import to_plain
from orchestrator.cli.answer import Answer, UsageError
from orchestrator.config.experiment import Experiment, load_experiment
from orchestrator.identity import recognise
from orchestrator.limits.prices import require_prices
from orchestrator.plan import make_plan, planned_uids
from orchestrator.settings import LauncherKind
from orchestrator.store.control import Control, Pauser
from orchestrator.store.job import new_job_id
from orchestrator.store.layouts import holds_older_cells
from orchestrator.store.leases import Liveness, Watch, live_leases
from orchestrator.store.store import Store
from orchestrator.store.submissions import batch_launches

if TYPE_CHECKING:
    from orchestrator.sweep.run import Sweep


def run(arguments: argparse.Namespace) -> Answer:
    """Run what is pending; the last thing said is the table and where to look."""
    from orchestrator.sweep import run as sweeps

    experiment = load_experiment(arguments.overrides)
    require_prices(experiment.asked_models(), experiment.limits)
    _require_keys(experiment)
    known = recognise(make_plan(experiment), Store(arguments.out / experiment.name))
    doubt = known.doubt()
    if doubt is not None and not arguments.again:
        raise UsageError(f"{doubt}; say --again, or keep them apart with name=ANOTHER")
    sweep = sweeps.Sweep(
        name=experiment.name,
        cells=known.plan.cells,
        launcher=experiment.launcher,
        tracking=experiment.tracking.below(arguments.out),
        limits=experiment.limits,
        resolved=experiment.resolved(),
        outputs=arguments.out,
    )
    pause = Control(sweep.store).paused()
    if pause is not None and pause.by is Pauser.PERSON:
        raise UsageError(
            f"{experiment.name} is paused: {pause.reason}; `kernelsweep resume` lifts that, then run again"
        )
    if experiment.launcher.kind is LauncherKind.slurm:
        return _submitted(sweep, top_up=arguments.top_up)
    if arguments.top_up:
        raise UsageError("--top-up adds jobs to those of a cluster; it takes launcher=slurm")
    outcome = sweeps.run(sweep)
    data = {"experiment": experiment.name, "exit_code": outcome.exit_code, "report": str(outcome.report)}
    data |= {"missing": outcome.missing, "owed": to_plain(outcome.owed), "notes": outcome.notes}
    data["cells"] = [row.plain() for row in outcome.rows]
    return Answer(text=sweeps.summary(sweep, outcome), data=data, code=outcome.exit_code)


def _submitted(sweep: Sweep, *, top_up: bool) -> Answer:
    """Hand the sweep to SLURM, and say how to follow it."""
    from orchestrator.sweep import submit

    handed = submit.submit(sweep, top_up=top_up)
    data = {"experiment": sweep.name, "exit_code": handed.exit_code, **to_plain(handed)}
    return Answer(text=submit.summary(sweep, handed), data=data, code=handed.exit_code)


def report(arguments: argparse.Namespace) -> Answer:
    """Write the report of the finished cells, or their sessions for training."""
    from orchestrator.report.report import finished_records, write_report
    from orchestrator.report.trajectories import write_trajectories

    _, store, _ = opened(arguments)
    if arguments.trajectories:
        path = write_trajectories(store, finished_records(store))
        return Answer(text=str(path), data={"trajectories": str(path)})
    if arguments.rebuild_index:
        busy = [pulse.worker for pulse, liveness in live_leases(store.leases_dir, Watch()) if liveness != Liveness.DEAD]
        if busy:
            raise UsageError(
                f"worker {busy[0]} is at work in {store.root}, and the index is rebuilt only while none is; "
                "wait for the end, or cancel it first"
            )
        store.rebuild_index(f"rebuilt-{new_job_id()}")
    path = write_report(store)
    return Answer(text=str(path), data={"report": str(path)})


def sync(arguments: argparse.Namespace) -> Answer:
    """Project the records into MLflow."""
    from orchestrator.tracking.sync import sync as project
    from orchestrator.tracking.sync import ui_command

    experiment, store, _ = opened(arguments)
    tracking = experiment.tracking.below(arguments.out)
    if not tracking.enabled:
        raise UsageError("tracking is off; give tracking=mlflow")
    changed = project(store, tracking, rebuild=arguments.rebuild)
    text = f"{changed:,} cells written to {tracking.uri}; see them with\n  {ui_command(tracking.uri)}"
    return Answer(text=text, data={"cells": changed, "uri": tracking.uri, "ui_command": ui_command(tracking.uri)})


def _require_keys(experiment: Experiment) -> None:
    """Raise UsageError that names every model that will be asked and has no key in the environment."""
    missing = {
        model.label: variable
        for grid in experiment.grids
        if grid.asks_models
        for model in grid.model
        if (variable := model.runtime["model"]["api_key_env"]) is not None and not os.environ.get(variable)
    }
    if missing:
        named = ", ".join(f"{label} (environment variable {variable})" for label, variable in missing.items())
        raise UsageError(f"no key is set for {named}; set it first, or leave the model out")


def opened(arguments: argparse.Namespace) -> tuple[Experiment, Store, list[str]]:
    """The experiment, its store and the planned uids. Raises UsageError when nothing has been run."""
    experiment = load_experiment(arguments.overrides)
    store = Store(arguments.out / experiment.name)
    if not store.cells_dir.is_dir() and not batch_launches(store):  # whose jobs may still wait
        raise UsageError(f"{store.root} holds no cells yet; run `kernelsweep run` with the same arguments first")
    if holds_older_cells(store):
        return experiment, store, list(recognise(make_plan(experiment), store).plan.cells)
    return experiment, store, planned_uids(experiment)

"""One sweep, from the plan to the table. Running it again does what is left, and nothing when all is done."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from evaluation.device.presence import require
from evaluation.serialize import to_plain
from orchestrator.cell import Cell
from orchestrator.environment import capture
from orchestrator.limits.settings import LimitsSettings
from orchestrator.limits.summary import write_settings
from orchestrator.report.page import write_cell_page
from orchestrator.report.report import write_report
from orchestrator.report.tables import format_table
from orchestrator.settings import CHECKOUT, LauncherSettings, TrackingSettings
from orchestrator.store.control import Control, Pauser
from orchestrator.store.files import write_atomic
from orchestrator.store.index import Row
from orchestrator.store.job import Job, create_job, new_job_id
from orchestrator.store.layouts import remember_layout
from orchestrator.store.snapshot import take_snapshot
from orchestrator.store.store import Store, dump
from orchestrator.sweep.launcher import build_launcher
from orchestrator.sweep.processes import sigterm_exits
from orchestrator.sweep.progress import Progress
from orchestrator.sweep.runner import mend
from orchestrator.sweep.status import Owed, collect
from orchestrator.tracking.follow import Follower
from orchestrator.tracking.sync import is_behind, ui_command


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What is to be run, and how."""

    name: str
    cells: Mapping[str, Cell]
    """By uid, in the order in which they are to be run."""
    launcher: LauncherSettings
    tracking: TrackingSettings
    limits: LimitsSettings
    resolved: str
    """The composed config as YAML, kept as experiment.yaml."""
    outputs: Path
    """Folder of all experiments."""

    @property
    def store(self) -> Store:
        """The experiment's own folder."""
        return Store(self.outputs / self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a sweep came to."""

    rows: list[Row]
    """Finished cells, in the plan's order."""
    owed: list[Owed] = field(default_factory=list)
    """Cells that failed on our side or the provider's."""
    running_elsewhere: int = 0
    """Cells that processes of another launch work on."""
    missing: int = 0
    """Planned cells without a record, for whatever reason."""
    report: Path
    notes: list[str] = field(default_factory=list)
    """What the user should know beside the table."""

    @property
    def exit_code(self) -> int:
        """0 when every planned cell has its record, else 1."""
        return 1 if self.missing else 0


def run(sweep: Sweep, progress: TextIO = sys.stderr) -> Outcome:
    """Run every planned cell that has no record yet. Progress goes to `progress`.

    Raises StoreError when the experiment's folder belongs to other cells, DeviceAbsent when this machine cannot judge
    what is pending.
    """
    store = sweep.store
    done = {uid: row for uid, row in store.rows().items() if uid in sweep.cells}
    pending = {uid: cell for uid, cell in sweep.cells.items() if uid not in done}
    require(cell.identity["evaluation"]["device"] for cell in pending.values())
    notes = _launch(sweep, prepare(sweep, pending), done, progress) if pending else _tidy(sweep)
    rows = store.rows() if pending else done
    finished = [rows[uid] for uid in sweep.cells if uid in rows]
    missing = len(sweep.cells) - len(finished)
    status = collect(store, sweep.cells) if missing else None
    return Outcome(
        rows=finished,
        owed=[*status.owed, *status.parked, *status.quarantined] if status else [],
        running_elsewhere=len(status.running) if status else 0,
        missing=missing,
        report=store.root / "report.html",
        notes=notes,
    )


def summary(sweep: Sweep, outcome: Outcome) -> str:
    """The table, what is owed and why, and where to look next."""
    lines = [format_table(outcome.rows), ""]
    lines += [f"owed: {owed.uid}: {owed.cause}" for owed in outcome.owed]
    if outcome.running_elsewhere:
        lines.append(f"{outcome.running_elsewhere} cells are being run by another launch")
    if outcome.missing:
        lines.append(f"{outcome.missing} of {len(sweep.cells)} cells are not done; the same command goes on with them")
    lines += outcome.notes
    lines.append(f"report: {outcome.report}")
    if sweep.tracking.enabled:
        lines.append(f"MLflow: {ui_command(sweep.tracking.uri)}")
    return "\n".join(lines)


def prepare(sweep: Sweep, pending: Mapping[str, Cell]) -> Job:
    """Write all that the workers of a new launch need to find, and publish what a killed one has left."""
    store = sweep.store
    remember_layout(store)
    code = take_snapshot(CHECKOUT, sweep.outputs / "code")
    cache = sweep.outputs.resolve() / "cache"
    job = create_job(store, pending, cache, sweep.launcher, code_dir=code, limits=sweep.limits)
    write_settings(store.root, sweep.limits)
    environment, patch = capture(CHECKOUT, code.name, sweep.resolved)
    for folder in (job.directory, store.root):
        write_atomic(folder / "environment.json", dump(to_plain(environment)))
        write_atomic(folder / "experiment.yaml", sweep.resolved)
    if patch:
        write_atomic(job.directory / "checkout.patch", patch)
    control = Control(store)
    if (pause := control.paused()) is not None and pause.by is Pauser.SPENT:
        control.resume()
    mend(store, job.id)
    return job


def _launch(sweep: Sweep, job: Job, done: dict[str, Row], stream: TextIO) -> list[str]:
    """Work until nothing is left, then make the pages; returns notes for the user."""
    store = sweep.store
    follower = Follower(store, sweep.tracking, job.directory / "tracking.log") if sweep.tracking.enabled else None
    try:
        with sigterm_exits(), Progress(job, store, len(sweep.cells), done, stream):
            build_launcher(sweep.launcher).launch(job)
        for uid in sweep.cells:
            if store.is_done(uid) and not store.page_path(uid).exists():
                write_cell_page(store, uid)
        write_report(store)
    except BaseException:
        if follower is not None:
            follower.kill()
        raise
    return _drain(follower) if follower is not None else []


def _tidy(sweep: Sweep) -> list[str]:
    """Every planned cell is done: make only what a killed run has left out."""
    store = sweep.store
    unindexed = bool(store.unindexed())
    if unindexed:
        mend(store, f"mend-{new_job_id()}")
    if unindexed or not (store.root / "report.html").exists():
        write_report(store)
    if sweep.tracking.enabled and is_behind(store, sweep.tracking):
        return _drain(Follower(store, sweep.tracking, store.root / "tracking" / "follow.log"))
    return []


def _drain(follower: Follower) -> list[str]:
    if follower.drain():
        return []
    return [f"MLflow is behind, and `kernelsweep sync` goes on with it; see {follower.log_path}"]

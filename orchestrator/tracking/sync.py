"""Follows a store and projects it into MLflow: one parent run per experiment, one child run per attempt at a cell.

The store is the truth. Projecting twice equals once, also after the cursor is lost or the process was killed, because
runs are found by tag and all times come from the journal. One process writes to a destination at a time. MLflow is
imported only when there is something to write.
"""

from __future__ import annotations

import sys
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.settings import SQLITE, TrackingSettings
from orchestrator.store.claims import Claim, Outcome, forget_earlier, history, take
from orchestrator.store.files import Tail
from orchestrator.store.index import Standing
from orchestrator.store.journal import read_events, read_first
from orchestrator.store.leases import Lease, Watch
from orchestrator.store.store import Store
from orchestrator.tracking.cursor import Cursor, Seen, cursor_path
from orchestrator.tracking.projection import RunView, project

if TYPE_CHECKING:
    from orchestrator.tracking.mirror import Mirror


class TrackingBusyError(Exception):
    """Another process writes to the same destination; the message names it."""


def ui_command(uri: str) -> str:
    """The command that opens MLflow's pages on the store. Its server, too, has no business on the network."""
    program = Path(sys.executable).parent / "mlflow"
    quiet = "MLFLOW_DISABLE_TELEMETRY=true MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false LITELLM_LOCAL_MODEL_COST_MAP=True"
    return f"env {quiet} {program} ui --backend-store-uri {uri} --workers 1 --port 5000"


def sync(store: Store, settings: TrackingSettings, *, rebuild: bool = False) -> int:
    """Project what has changed; returns the number of cells that had.

    `rebuild` compares everything anew. Raises TrackingBusyError while another process writes there, and what MLflow
    raises when it fails; the next sync then takes up what is missing.
    """
    return Tracker(store, settings).sync(rebuild=rebuild)


def is_behind(store: Store, settings: TrackingSettings) -> bool:
    """Whether a sync would find something to do. Loads no MLflow."""
    return Tracker(store, settings).behind()


class Tracker:
    """One store and one destination, to be synced once or again and again."""

    def __init__(self, store: Store, settings: TrackingSettings) -> None:
        self._store = store
        self._settings = settings
        self._uri = settings.uri
        self._cursor = Cursor(cursor_path(store, self._uri, settings.experiment))
        self._index = Tail(store.index_dir)
        self._standing = Standing()
        self._standing.rows = store.rows()
        self._mirror: Mirror | None = None
        self._parent_id = ""
        self._last_claim = 0
        self._watch = Watch()

    def sync(self, *, rebuild: bool = False) -> int:
        """See `sync` above."""
        if rebuild:
            self._cursor.reset()
        if not self.behind():
            return 0
        with Lease(self._owner_dir(), self._store.name) as lease:
            claim = take(self._owner_dir(), lease, self._watch)
            if claim is None:
                holders = [f"process {held.holder.pid} on {held.holder.host}" for held in history(self._owner_dir())]
                raise TrackingBusyError(f"{self._uri} is being written by {(holders or ['another process'])[-1]}")
            try:
                self._cursor.catch_up()
                return self._write(self._due(), claim)
            finally:
                claim.end(Outcome.DONE)
                forget_earlier(claim)

    def behind(self) -> bool:
        """Whether anything has changed since the last sync, or what it wrote is gone."""
        if self._database_is_gone():
            self._cursor.reset()
        return bool(self._due()) or self._cursor.parent_behind

    def _due(self) -> list[Seen]:
        self._standing.take(self._index.poll())
        return self._cursor.due(self._store, self._standing.rows)

    def _write(self, due: list[Seen], claim: Claim) -> int:
        if not due and not self._cursor.parent_behind:
            return 0
        from orchestrator.tracking.mirror import Mirror, quiet

        with quiet():
            if self._mirror is None or claim.number != self._last_claim + 1:  # somebody else has written since
                self._mirror = Mirror(self._uri, self._settings.experiment, self._artifacts_uri())
                self._parent_id = self._mirror.parent(self._store.name, self._first_ms(due))
            for seen in due:
                for view in self._views(seen):
                    self._write_run(self._mirror, view)
                self._cursor.advance(seen)
            self._write_parent(self._mirror)
        self._cursor.settle()
        self._last_claim = claim.number
        return len(due)

    def _first_ms(self, due: list[Seen]) -> int:
        """When the first of these cells was begun, in milliseconds since 1970."""
        firsts = (read_first(self._store.trajectory_path(seen.uid)) for seen in due)
        return min((int(first["t"] * 1000) for first in firsts if first is not None), default=0)

    def _views(self, seen: Seen) -> list[RunView]:
        uid = seen.uid
        events = read_events(self._store.trajectory_path(uid))
        record = self._store.read_record(uid) if seen.finished else None
        claims = history(self._store.attempts_dir(uid))
        return project(self._store.read_cell(uid), events, claims, record, held=seen.held)

    def _write_run(self, mirror: Mirror, view: RunView) -> None:
        run_id = mirror.child(view, self._parent_id)
        mirror.log(run_id, view.figures, view.params, view.tags)
        if self._settings.artifacts:
            folder = self._store.cell_dir(view.uid)
            there = mirror.artifact_names(run_id, "kernels") if view.kernels else set()
            for kernel in view.kernels:
                if f"kernels/{kernel.file_name}" not in there:
                    source = folder / "solutions" / f"{kernel.solution_sha256[:12]}.py"
                    mirror.upload_text(run_id, source.read_text(encoding="utf-8"), f"kernels/{kernel.file_name}")
            if view.state == "FINISHED":
                names = ("cell.json", "record.json", "trajectory.jsonl", "page.html")
                for path in (folder / name for name in names):
                    if path.exists():
                        mirror.upload(run_id, path)
        mirror.set_state(run_id, view.state, view.ended_ms)

    def _write_parent(self, mirror: Mirror) -> None:
        rows = self._standing.rows.values()
        verdicts = Counter(row.verdict for row in rows)
        tags = {f"kernelsweep.cells.{verdict}": str(count) for verdict, count in verdicts.items()}
        mirror.log(self._parent_id, [], {}, {"kernelsweep.cells": str(len(rows)), **tags})
        if self._settings.artifacts:
            for path in (self._store.root / name for name in ("experiment.yaml", "environment.json")):
                if path.exists():
                    mirror.upload(self._parent_id, path)
        last = max((datetime.fromisoformat(row.finished_at).timestamp() for row in rows), default=0.0)
        mirror.set_state(self._parent_id, "RUNNING" if self._cursor.at_work else "FINISHED", int(last * 1000))

    def _database(self) -> Path | None:
        return Path(self._uri.removeprefix(SQLITE)) if self._uri.startswith(SQLITE) else None

    def _database_is_gone(self) -> bool:
        database = self._database()
        return database is not None and not database.exists()

    def _owner_dir(self) -> Path:
        """A SQLite file is owned as a whole, for any experiment; a server takes care of itself, so there a store is."""
        database = self._database()
        return self._store.root / "tracking" / "owner" if database is None else Path(f"{database}.owner")

    def _artifacts_uri(self) -> str | None:
        database = self._database()
        if database is None:
            return None
        database.parent.mkdir(parents=True, exist_ok=True)
        return (database.parent / "mlartifacts").as_uri()

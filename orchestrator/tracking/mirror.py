"""The only code that speaks to MLflow. Everything is found by tag and may be written twice."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # read at import; nothing may try the network

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what MLflow's own imports deprecate is not ours to mend
    from mlflow.entities import Metric, Param, RunTag
    from mlflow.tracking import MlflowClient

from orchestrator.tracking.projection import Figure, RunView

METRICS_MAX = 1000
"""Metrics that one log_batch takes."""
KEY_TAG = "kernelsweep.attempt"
PARENT_TAG = "kernelsweep.experiment"


@contextmanager
def quiet() -> Iterator[None]:
    """Hush what MLflow and SQLAlchemy deprecate among themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", ResourceWarning)
        yield


class Mirror:
    """The runs of one experiment in one MLflow store: a parent, and a child for every attempt at a cell."""

    def __init__(self, uri: str, experiment: str, artifacts_uri: str | None) -> None:
        self._client = MlflowClient(tracking_uri=uri)
        found = self._client.get_experiment_by_name(experiment)
        self._experiment_id: str = (
            found.experiment_id
            if found is not None
            else self._client.create_experiment(experiment, artifact_location=artifacts_uri)
        )
        self._run_ids: dict[str, str] = {}
        self._states: dict[str, str] = {}

    def parent(self, name: str, started_ms: int) -> str:
        """The run id of the experiment's parent run, created if there is none; also finds its children."""
        parents = self._search(f"tags.`{PARENT_TAG}` = '{name}'")
        if parents:
            parent_id, self._states[parent_id] = parents[0][0], parents[0][1]
        else:
            tags = {PARENT_TAG: name, "kernelsweep.kind": "experiment"}
            parent_id = self._create(name, started_ms, tags)
        children = self._search(f"tags.`mlflow.parentRunId` = '{parent_id}'")
        for run_id, state, tags in children:
            self._run_ids[tags[KEY_TAG]] = run_id
            self._states[run_id] = state
        return parent_id

    def child(self, view: RunView, parent_id: str) -> str:
        """The run id of an attempt, created if there is none."""
        run_id = self._run_ids.get(view.key)
        if run_id is None:
            name = view.uid if view.attempt == 1 else f"{view.uid} #{view.attempt}"
            run_id = self._create(name, view.started_ms, {**view.tags, "mlflow.parentRunId": parent_id})
            self._run_ids[view.key] = run_id
        return run_id

    def log(self, run_id: str, figures: Sequence[Figure], params: dict[str, str], tags: dict[str, str]) -> None:
        """Write figures, params and tags; equal ones that are there already stay single."""
        metrics = [Metric(name, value, at_ms, step) for name, value, at_ms, step in figures]
        all_params = [Param(key, value) for key, value in params.items()]
        all_tags = [RunTag(key, value) for key, value in tags.items()]
        self._client.log_batch(run_id, metrics[: METRICS_MAX - 200], all_params, all_tags)
        for start in range(METRICS_MAX - 200, len(metrics), METRICS_MAX):
            self._client.log_batch(run_id, metrics[start : start + METRICS_MAX])

    def artifact_names(self, run_id: str, folder: str | None = None) -> set[str]:
        """Paths of the artifacts in one folder of a run."""
        return {item.path for item in self._client.list_artifacts(run_id, folder)}

    def upload(self, run_id: str, path: Path, folder: str | None = None) -> None:
        """Store a file under its own name."""
        self._client.log_artifact(run_id, str(path), folder)

    def upload_text(self, run_id: str, text: str, name: str) -> None:
        """Store a text under `name`, folders included."""
        self._client.log_text(run_id, text, name)

    def set_state(self, run_id: str, state: str, ended_ms: int) -> None:
        """Say that a run is at work, or how it ended and when."""
        if state != "RUNNING":
            self._client.set_terminated(run_id, state, ended_ms)
        elif self._states[run_id] != state:
            self._client.update_run(run_id, status=state)
        self._states[run_id] = state

    def _create(self, name: str, started_ms: int, tags: dict[str, str]) -> str:
        run = self._client.create_run(self._experiment_id, start_time=started_ms, tags=tags, run_name=name)
        run_id: str = run.info.run_id
        self._states[run_id] = "RUNNING"
        return run_id

    def _search(self, condition: str) -> list[tuple[str, str, dict[str, str]]]:
        """(run id, state, tags) of all runs that fulfil the condition."""
        found = []
        token = None
        while True:
            page = self._client.search_runs([self._experiment_id], condition, max_results=1000, page_token=token)
            found += [(run.info.run_id, run.info.status, run.data.tags) for run in page]
            token = page.token
            if not token:
                return found

"""The command that a sweep prints opens MLflow's pages, and they have everything."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

from ports import free_ports

from orchestrator.cell import Record
from orchestrator.report.page import write_cell_page
from orchestrator.settings import TrackingSettings
from orchestrator.store.store import Store
from orchestrator.tracking.sync import sync, ui_command


def test_the_printed_command_shows_it_all(
    store: Store, finish_cell: Callable[..., Record], settings: TrackingSettings
) -> None:
    records = [finish_cell(seed=seed) for seed in range(2)]
    for record in records:
        write_cell_page(store, record.uid)
    sync(store, settings)
    port = str(free_ports(1)[0])
    command = [*shlex.split(ui_command(settings.uri))[:-1], port]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        api = f"http://127.0.0.1:{port}/api/2.0/mlflow"
        experiment = wait_for(f"{api}/experiments/get-by-name?experiment_name=kernelsweep")["experiment"]
        runs = post(f"{api}/runs/search", {"experiment_ids": [experiment["experiment_id"]]})["runs"]
        by_name = {run["info"]["run_name"]: run for run in runs}
        assert set(by_name) == {store.name, *(record.uid for record in records)}
        parent_id = by_name[store.name]["info"]["run_id"]
        for record in records:
            run = by_name[record.uid]
            run_id = run["info"]["run_id"]
            tags = {tag["key"]: tag["value"] for tag in run["data"]["tags"]}
            assert tags["mlflow.parentRunId"] == parent_id
            history = get(f"{api}/metrics/get-history?run_id={run_id}&metric_key=turn%2Ftokens_in")["metrics"]
            assert [point["step"] for point in history] == [1, 2, 3]
            top = get(f"{api}/artifacts/list?run_id={run_id}")["files"]
            assert {"kernels", "record.json", "page.html"} <= {item["path"] for item in top}
            kernels = get(f"{api}/artifacts/list?run_id={run_id}&path=kernels")["files"]
            assert len(kernels) == 3
            path = urllib.parse.quote(kernels[-1]["path"])
            url = f"http://127.0.0.1:{port}/get-artifact?run_id={run_id}&path={path}"
            with urllib.request.urlopen(url, timeout=60) as answer:
                assert b"class ModelNew" in answer.read()
    finally:
        stop_group(server)


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def post(url: str, body: Any) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def wait_for(url: str) -> Any:
    deadline = time.monotonic() + 120
    while True:
        try:
            return get(url)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def stop_group(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()

"""The chaos of `sweep.py`: many cells on the test cluster while workers and jobs are killed and SLURM goes away.

Every `kill_s` seconds a random worker that is at work ends: by SIGKILL, by its parent's, or by scancel of its job.
One that still starts holds nothing and is left alone: with LiteLLM's five seconds of CPU few would ever be up.
slurmctld is restarted twice. The provider fails at every tenth turn, and MLflow cannot be reached. A loop does what a
user would: `run --top-up`, and `retry` if cells were quarantined. Kills go on until the last cell is done.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faulty_provider import PRICE, answered, overrides, paid_for_nothing, play, wrong
from finished import assert_each_once, assert_ledger_exact, assert_no_reply_paid_twice
from model_server import Faults, ModelServer, model_server
from slurm_cluster import Cluster

from orchestrator.config.experiment import load_experiment
from orchestrator.limits.ledger import NUSD
from orchestrator.plan import make_plan
from orchestrator.store.claims import history
from orchestrator.store.leases import Liveness, Pulse, Watch, live_leases
from orchestrator.store.store import Store

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[1]
TOP_UP_S = 10.0
AGENTS = 6
GIVES_UP_S, GIVES_UP_PER_CELL_S = 300.0, 2.4
NO_MLFLOW = "http://127.0.0.1:9"
"""Nobody listens there."""


@dataclass
class Killer:
    """Ends something of the sweep every so many seconds, until it is told to stop; and the controller at two points."""

    cluster: Cluster
    store: Store
    cells: int
    every_s: float
    dice: random.Random = field(default_factory=lambda: random.Random(7))
    kills: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Until `stop`."""
        while not self.stop.wait(self.every_s):
            pulses = [pulse for pulse, seen in live_leases(self.store.leases_dir, Watch()) if seen is Liveness.ALIVE]
            if pulses:
                kind = self.dice.choices(("worker", "its parent", "its job"), (6, 2, 2))[0]
                self.kills[kind] += self._end(kind, self.dice.choice(pulses))
            if self.restarts < 2 and len(self.store.rows()) > (self.restarts + 1) * self.cells // 3:
                self.cluster.end_controller()
                self.cluster.start_controller()
                self.restarts += 1

    def _end(self, kind: str, pulse: Pulse) -> bool:
        if kind == "its job":
            return self.cluster.queue().get(pulse.worker) == "RUNNING" and not self._scancel(pulse.worker)
        pid = pulse.holder.pid
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            if kind == "its parent":
                pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(pid, signal.SIGKILL)
            return True
        return False

    def _scancel(self, task: str) -> str:
        return self.cluster.command("scancel", task)


class User:
    """Who gives the commands, on the login node."""

    def __init__(self, cluster: Cluster, asked: list[str], out: Path) -> None:
        self._environment = {**cluster.environment, "PYTHONPATH": str(ROOT)}
        self._words = [*asked, "--out", str(out)]
        self.cpu_s = 0.0

    def says(self, verb: str, *options: str) -> tuple[int, str]:
        """Exit code, and what was said."""
        command = [sys.executable, "-m", "orchestrator", verb, *self._words, *options]
        process = subprocess.Popen(
            command, env=self._environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout is not None
        with process.stdout as output:
            text = output.read()
        _, status, usage = os.wait4(process.pid, 0)
        self.cpu_s += usage.ru_utime + usage.ru_stime
        return os.waitstatus_to_exitcode(status), text


def chaos(cells: int, kill_s: float, folder: Path) -> Json:
    """The raw figures of one run. Raises AssertionError when anything is lost, doubled or charged wrongly."""
    cluster = Cluster()
    try:
        with model_server(play, faults=Faults(rate=0.1, seed=3, burst=2)) as server:
            server.retry_after_s = 0.2
            asked = overrides(
                server.url, cells, "tracking=mlflow", f"tracking.uri={NO_MLFLOW}", "limits.cost_usd=1000",
                "launcher=slurm", "launcher.workers=2", f"launcher.agents={AGENTS}", "launcher.slurm.cpus=2",
                "launcher.slurm.memory_gb=1",
            )  # fmt: skip
            asked.remove("tracking=none")
            return _watched(cluster, server, asked, kill_s, folder) | {"kill_s": kill_s}
    finally:
        cluster.stop()


def _watched(cluster: Cluster, server: ModelServer, asked: list[str], kill_s: float, out: Path) -> Json:
    store, user = Store(out / "faulty"), User(cluster, asked, out)
    planned = make_plan(load_experiment(asked)).cells
    began = time.monotonic()
    code, said = user.says("run")
    assert code == 0, said
    killer = Killer(cluster, store, len(planned), kill_s)
    thread = threading.Thread(target=killer.run)
    thread.start()
    retried = 0
    gives_up = began + GIVES_UP_S + GIVES_UP_PER_CELL_S * len(planned)
    try:
        while len(store.rows()) < len(planned) and time.monotonic() < gives_up:
            time.sleep(TOP_UP_S)
            user.says("run", "--top-up")
            if "0 quarantined" not in user.says("status")[1]:
                retried += 1
                user.says("retry")
    finally:
        killer.stop.set()
        thread.join()
    wall_s = time.monotonic() - began
    code, _ = user.says("wait", "--patience", "60")
    deadline = time.monotonic() + 60.0
    while cluster.queue() and time.monotonic() < deadline:
        time.sleep(0.5)
    user.says("run", "--top-up")
    return _judged(store, planned, server, killer) | {
        "wait_code": code,
        "wall_s": wall_s,
        "commands_cpu_s": user.cpu_s,
        "retried": retried,
    }


def _judged(store: Store, planned: dict[str, Any], server: ModelServer, killer: Killer) -> Json:
    mistaken = wrong(store, planned, server)
    claims = [len(history(store.attempts_dir(uid))) for uid in planned]
    found: Json = {
        "cells": len(planned),
        "wrong": mistaken,
        "kills": dict(killer.kills),
        "restarts": killer.restarts,
        "requests": len(server.log),
        "faults": sum(served.fault is not None for served in server.log),
        "claims": sum(claims),
        "claims_of_one_cell": max(claims),
        "twice": 0,
        "ledger_exact": False,
    }
    if mistaken:
        return found
    lost_max = sum(killer.kills.values()) * AGENTS
    assert_each_once(store, planned)
    assert_no_reply_paid_twice(store, planned, list(answered(server)), lost_max)
    spent = assert_ledger_exact(store, planned, lost_max + paid_for_nothing(server))
    assert server.cost_usd(*PRICE) <= spent.total_nusd / NUSD
    return found | {
        "ledger_exact": True,
        "in_doubt": len(spent.in_doubt),
        "server_usd": server.cost_usd(*PRICE),
        "charged_usd": spent.total_nusd / NUSD,
        "replies_lost_with_their_process": len(server.paid_twice()),
    }

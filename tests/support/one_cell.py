"""A job of a few cells that need no judge, and its workers as forks of one process that has imported all they need."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from disk_steps import at_step, kill_self, stop_self
from sweeps import call, make_sweep

from evaluation.serialize import to_plain
from orchestrator.cell import Cell
from orchestrator.store.files import write_atomic
from orchestrator.store.job import Job, PlannedCells, create_job
from orchestrator.store.store import Store
from orchestrator.sweep.worker import Worker

TURNS = 2


def make_job(folder: Path, *overrides: str, lease_s: float = 60.0, turns: int = TURNS, outputs: str = "outputs") -> Job:
    """A job under `folder`, whose cells call one harmless tool `turns` times."""
    replies = [call("get_gpu_specs")] * turns
    sweep = make_sweep(folder, replies, "agent=tool_loop", f"budget.turns={turns}", *overrides)
    return rewritten(create_job(Store(folder / outputs / sweep.name), sweep.cells, folder / "cache"), lease_s=lease_s)


def rewritten(job: Job, **changes: Any) -> Job:
    """The job with other settings, also on the disk. One loop unless told otherwise."""
    job = dataclasses.replace(job, **{"agents": 1, **changes})
    write_atomic(job.directory / "job.json", json.dumps(to_plain(job)))
    return job


def planned(job: Job) -> list[Cell]:
    """The cells of a job in order."""
    cells = PlannedCells(job)
    return [cells.cell(uid) for uid in cells.uids]


def store_of(job: Job) -> Store:
    return Store(Path(job.root))


def fork_worker(job: Job, name: str, step: int | None = None, *, stops: bool = False) -> int:
    """The pid of a worker that ends (or stops) before step `step` of its changes to the disk; None lets it finish.

    One that finishes leaves the list of its steps in `<root>/<name>.steps`.
    """
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        steps = at_step(step, stop_self if stops else kill_self)
        Worker(job, name).run()
        (Path(job.root) / f"{name}.steps").write_text(" ".join(steps))
        code = 0
    finally:
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        os._exit(code)


def steps_of(job: Job, name: str) -> list[str]:
    """What a worker that finished has noted."""
    return (Path(job.root) / f"{name}.steps").read_text().split()


def crash_everywhere(folder: Path) -> int:
    """Kill a worker before each of its steps in turn and let another one finish; returns how many steps there were.

    The store of each is `<step>/tiny`; in the last one nobody was killed.
    """
    cells = {cell.uid: cell for cell in planned(make_job(folder))}
    step = 0
    while True:
        step += 1
        job = rewritten(create_job(Store(folder / str(step) / "tiny"), cells, folder / "cache"))
        _, status = os.waitpid(fork_worker(job, "first", step), 0)
        _, second = os.waitpid(fork_worker(job, "second"), 0)
        assert second == 0
        if status == 0:
            return step - 1


if __name__ == "__main__":
    sys.stdout.write(f"{crash_everywhere(Path(sys.argv[1]))}\n")

"""Kills and freezes a sweep at random points; what is on disk afterwards must be as if nothing had happened."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from finished import assert_each_once
from sweeps import call, make_sweep

from orchestrator.store.claims import history
from orchestrator.store.files import read_lines
from orchestrator.store.store import Store
from orchestrator.sweep.run import Sweep

KINDS = ["coordinator", "group", "worker", "freeze"] * 3
TURNS = 6
CELLS = 200
FEWEST = 8
"""Kills and freezes after which a sweep may be over: how far it gets meanwhile depends on the machine."""
LOOPS = 3
LEASE_S = 1.5
DRIVER = """
import pickle, sys
from orchestrator.sweep.run import run
with open(sys.argv[1], "rb") as file:
    sys.exit(run(pickle.load(file)).exit_code)
"""


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    """Many cells that no judge is needed for, so that a kill hits the orchestration and not an import of torch."""
    replies = [call("get_gpu_specs")] * TURNS
    return make_sweep(
        tmp_path, replies, f"seed=range(0,{CELLS})", "agent=tool_loop", f"budget.turns={TURNS}", "launcher.workers=2",
        f"launcher.agents={LOOPS}", f"launcher.lease_s={LEASE_S}",
    )  # fmt: skip


def start(sweep: Sweep, folder: Path) -> subprocess.Popen[bytes]:
    plan = folder / "sweep.pickle"
    plan.write_bytes(pickle.dumps(sweep))
    with (folder / "stderr").open("ab") as stderr:
        return subprocess.Popen([sys.executable, "-c", DRIVER, str(plan)], stderr=stderr, start_new_session=True)


def bytes_written(store: Store) -> int:
    return sum(path.stat().st_size for path in store.cells_dir.glob("*/trajectory.jsonl"))


def children(pid: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def alive(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def wait_until_written(store: Store, process: subprocess.Popen[bytes], more: int) -> None:
    target = bytes_written(store) + more
    deadline = time.monotonic() + 60
    while bytes_written(store) < target and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def freeze(pid: int) -> None:
    """Stop a process for longer than its lease, and let it go on: others have its cells by then."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1.5 * LEASE_S)
        os.kill(pid, signal.SIGCONT)


def test_kills_and_freezes_leave_every_cell_once_and_no_reply_asked_twice(sweep: Sweep, tmp_path: Path) -> None:
    dice = random.Random(20)
    store = sweep.store
    process = start(sweep, tmp_path)
    for count, kind in enumerate(dice.sample(KINDS, len(KINDS))):
        wait_until_written(store, process, dice.randrange(0, 20_000))
        if count >= FEWEST and process.poll() is not None:
            break
        assert process.poll() is None, "the sweep ended before it was killed often enough: raise CELLS"
        workers = children(process.pid)
        if kind == "freeze" and workers:
            freeze(dice.choice(workers))
        elif kind == "worker" and workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(dice.choice(workers), signal.SIGKILL)
        else:
            (os.killpg if kind == "group" else os.kill)(process.pid, signal.SIGKILL)
            process.wait()
            deadline = time.monotonic() + 60
            while any(alive(worker) for worker in workers):
                assert time.monotonic() < deadline, "a worker outlived the coordinator"
                time.sleep(0.01)
            process = start(sweep, tmp_path)
    assert process.wait(300) == 0, (tmp_path / "stderr").read_text()

    assert_each_once(store, sweep.cells)
    events = [read_lines(store.trajectory_path(uid))[0] for uid in sweep.cells]
    assert all(sum(event["kind"] == "reply" for event in one) == TURNS for one in events)
    assert any(sum(event["kind"] == "start" for event in one) > 1 for one in events)  # cells were taken over
    for uid in sweep.cells:
        record = store.read_record(uid)
        assert record is not None and record.usage.prompt_tokens == 100 * TURNS
        assert history(store.attempts_dir(uid))[-1].number >= record.attempt

    again = start(sweep, tmp_path)
    before = bytes_written(store)
    assert again.wait(60) == 0
    assert bytes_written(store) == before

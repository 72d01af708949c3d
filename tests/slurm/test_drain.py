"""Jobs that are told to end, or are ended: cells in flight go on at their turn in another job, and none is lost."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
from collections.abc import Callable
from pathlib import Path

from slurm_cluster import GPUS, Cluster

from orchestrator.settings import TrackingSettings
from orchestrator.store.claims import Outcome, history
from orchestrator.store.files import read_lines
from orchestrator.sweep.jobs import TaskState, collect_tasks
from orchestrator.sweep.run import Sweep
from orchestrator.sweep.submit import submit

Make = Callable[..., Sweep]
Until = Callable[[Callable[[], object], float], None]
Done = Callable[[Sweep], bool]
LONG = 5_000
"""Turns of a cell that is surely in flight when its job ends."""
SHORT_S = 60.0
"""Bound on every drain."""


def turns(sweep: Sweep, uid: str) -> int:
    """Replies that a cell has; none of them is written twice."""
    path = sweep.store.trajectory_path(uid)
    replies = [row["turn"] for row in read_lines(path)[0] if row["kind"] == "reply"] if path.exists() else []
    assert len(replies) == len(set(replies))
    return len(replies)


def unfinished(sweep: Sweep) -> list[str]:
    return [uid for uid in sweep.cells if not sweep.store.is_done(uid)]


def ended(sweep: Sweep) -> set[Outcome | None]:
    """How the last claims of the unfinished cells ended by their holders' own hands; None: they did not."""
    last = [claims[-1] for uid in unfinished(sweep) if (claims := history(sweep.store.attempts_dir(uid)))]
    return {claim.ended.outcome if claim.ended is not None else None for claim in last}


def begun(sweep: Sweep, until: Until, jobs: int = 1) -> list[str]:
    """Submit the missing jobs and wait until so many cells have got some turns further; returns the jobs' names."""
    arrays = submit(sweep, top_up=True).arrays
    before = {uid: turns(sweep, uid) for uid in sweep.cells}
    until(lambda: sum(turns(sweep, uid) > before[uid] + 5 for uid in sweep.cells) >= jobs, 90)
    return [task for array in arrays for task in array.task_names()]


def test_jobs_told_to_end_free_their_cells_which_go_on_elsewhere(
    cluster: Cluster, sweep_of: Make, until: Until
) -> None:
    """One is cancelled, two get a signal, and the fourth is left to the wall time, of which SLURM warns early.

    It warns at one of its looks at the clock, which are half a minute apart.
    """
    wall = ["launcher.slurm.time_limit_min=2", "launcher.slurm.signal_lead_s=75"]
    sweep = sweep_of(8, LONG, "launcher.workers=4", *wall)
    tasks = begun(sweep, until, jobs=4)
    cluster.command("scancel", tasks[0])
    for task, name in zip(tasks[1:], ("USR2", "USR1"), strict=False):
        cluster.command("scancel", "--batch", f"--signal={name}", task)
    until(lambda: set(cluster.queue()) <= {tasks[3]}, SHORT_S)
    until(lambda: not cluster.queue(), 140)
    assert len(unfinished(sweep)) >= 4 and ended(sweep) == {Outcome.INTERRUPTED}
    found = collect_tasks(sweep.store).tasks
    assert [task.state for task in found] == [TaskState.ENDED] * 4
    for task, name in zip(found, ("SIGTERM", "SIGUSR2", "SIGUSR1", "SIGUSR1"), strict=True):
        log = Path(task.log).read_text()
        assert f"{name}: the workers drain" in log and "DUE TO TIME LIMIT" not in log
    written = {uid: turns(sweep, uid) for uid in unfinished(sweep)}

    begun(sweep, until)
    on = [uid for uid, count in written.items() if 0 < count < turns(sweep, uid)]
    assert on  # they went on where they were; `turns` has seen that no reply was asked for again


def test_a_requeued_job_goes_on_under_another_workers_name(cluster: Cluster, sweep_of: Make, until: Until) -> None:
    sweep = sweep_of(1, LONG, "launcher.workers=1")
    [uid] = sweep.cells
    [task] = begun(sweep, until)
    cluster.command("scontrol", "requeue", task)
    until(lambda: cluster.queue().get(task) == "PENDING", SHORT_S)
    assert ended(sweep) == {Outcome.INTERRUPTED}
    assert [found.state for found in collect_tasks(sweep.store).tasks] == [TaskState.PENDING]
    assert submit(sweep, top_up=True).jobs == 0  # it will run again, so nothing is missing
    written = turns(sweep, uid)
    cluster.command("scontrol", "update", f"jobid={task}", "StartTime=now")
    until(lambda: turns(sweep, uid) > written, 60)
    names = {path.stem for path in sweep.store.root.glob("jobs/*/workers/*.log")}
    assert {task, f"{task}r1"} <= names


def test_a_node_that_goes_down_loses_no_cell(cluster: Cluster, sweep_of: Make, until: Until, all_done: Done) -> None:
    sweep = sweep_of(1, 400, "launcher.workers=1", "launcher.slurm.extra={no-requeue: ''}")
    [uid] = sweep.cells
    [task] = begun(sweep, until)
    [mine] = collect_tasks(sweep.store).tasks
    node = mine.detail
    assert node in cluster.nodes
    cluster.command("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    try:
        until(lambda: task not in cluster.queue(), SHORT_S)
        assert submit(sweep, top_up=True).jobs == 1
        until(lambda: all_done(sweep), 90)
        assert turns(sweep, uid) == 400
    finally:
        cluster.revive(node)


def test_each_gpu_of_a_job_has_a_worker_and_a_killed_job_is_shown_as_lost(
    cluster: Cluster, sweep_of: Make, until: Until
) -> None:
    wanted = [f"launcher.slurm.gpus_per_node={GPUS}", "launcher.slurm.gpu_type=toy"]
    sweep = sweep_of(GPUS, LONG, "launcher.workers=1", *wanted)
    [task] = begun(sweep, until, jobs=GPUS)
    [journal] = sweep.store.root.glob(f"jobs/*/slurm/{task}.jsonl")
    node = read_lines(journal)[0][0]["pid"]
    workers = Path(f"/proc/{node}/task/{node}/children").read_text().split()
    assert {_name(worker): _gpu(worker) for worker in workers} == {
        f"{task}g{index}": str(index) for index in range(GPUS)
    }
    os.kill(node, signal.SIGKILL)
    until(lambda: not cluster.queue(), SHORT_S)
    until(lambda: not any(alive(worker) for worker in workers), 60)
    assert [found.state for found in collect_tasks(sweep.store).tasks] == [TaskState.LOST]
    assert f"lost  {task}" in "\n".join(collect_tasks(sweep.store).lines())


def alive(pid: str) -> bool:
    """Whether the process runs, and is not a zombie that waits to be reaped."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def _name(pid: str) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return words[words.index("--id") + 1]


def _gpu(pid: str) -> str:
    variables = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    [value] = [line.partition("=")[2] for line in variables if line.startswith("CUDA_VISIBLE_DEVICES=")]
    return value


def test_a_node_without_any_network_does_its_cells(
    cluster: Cluster, sweep_of: Make, until: Until, all_done: Done
) -> None:
    """A recorded model needs none, and MLflow, which would be on the other side, is no business of a worker."""
    sweep = sweep_of(3, 2, "launcher.workers=1", "launcher.slurm.prefix='unshare --net'")
    away = TrackingSettings(uri="http://mlflow.invalid:5000")
    sweep = dataclasses.replace(sweep, tracking=away)
    assert submit(sweep, top_up=False).jobs == 1
    until(lambda: all_done(sweep) and not cluster.queue(), 60)
    [mine] = collect_tasks(sweep.store).tasks
    assert mine.state is TaskState.ENDED

"""Submission: arrays, limits, refusals, requests lost on the way, and what is said about them."""

from __future__ import annotations

import json
import os
import stat
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_cluster import Cluster
from sweeps import PROBLEM

from orchestrator.cli.main import main
from orchestrator.settings import SlurmSettings
from orchestrator.store.claims import history
from orchestrator.store.control import Control
from orchestrator.store.files import read_lines
from orchestrator.store.submissions import batch_launches, read_submissions
from orchestrator.sweep import slurm
from orchestrator.sweep.jobs import TaskState, collect_tasks
from orchestrator.sweep.run import Sweep
from orchestrator.sweep.submit import submit, summary

Make = Callable[..., Sweep]
Until = Callable[[Callable[[], object], float], None]
Done = Callable[[Sweep], bool]
NEVER = "exec sleep 600"
"""A line of setup that makes a job of SLURM's which never becomes ours."""


def starved(make: Make, *overrides: str) -> Sweep:
    """A sweep whose jobs only occupy the cluster."""
    return make(1, 1, f"launcher.slurm.setup=['{NEVER}']", *overrides)


def test_jobs_do_every_cell_once_and_arrays_stay_within_max_array_size(
    cluster: Cluster, sweep_of: Make, until: Until, all_done: Done
) -> None:
    sweep = sweep_of(40, 3, "launcher.workers=4")
    before, cpu = os.umask(0o027), os.times()
    try:
        handed = submit(sweep, top_up=False)
    finally:
        os.umask(before)
    assert sum(os.times()[:4]) - sum(cpu[:4]) < 5  # seconds of this process and of SLURM's programs
    assert [array.tasks for array in handed.arrays] == [3, 1]  # MaxArraySize=3 permits indices 0 to 2
    assert (handed.jobs, handed.shortfall, handed.exit_code) == (4, "", 0)
    said = summary(sweep, handed)
    assert all(f"{array.array_id}  " in said for array in handed.arrays)
    assert "kernelsweep status" in said and "kernelsweep wait" in said

    until(lambda: all_done(sweep) and not cluster.queue(), 120)
    store = sweep.store
    listed = Counter(row["uid"] for path in store.index_dir.iterdir() for row in read_lines(path)[0])
    assert set(listed.values()) == {1} and set(listed) == set(sweep.cells)
    assert all(len(history(store.attempts_dir(uid))) == 1 for uid in sweep.cells)
    writers = {path.name for path in store.index_dir.iterdir()}
    assert len(writers) > 1, "one worker did it all"
    batch = collect_tasks(store)
    assert [task.state for task in batch.tasks] == [TaskState.ENDED] * 4
    assert not list(store.root.glob("jobs/*/slurm/*.pkl"))
    modes = {stat.S_IMODE(store.trajectory_path(uid).stat().st_mode) for uid in sweep.cells}
    assert modes == {0o640}, "nodes write with the umask of the one who submits"

    again = submit(sweep, top_up=False)
    assert (again.jobs, again.pending, again.exit_code) == (0, 0, 0)
    assert "nothing was submitted" in summary(sweep, again)


def test_a_refused_array_ends_the_submission_and_what_was_submitted_is_said(cluster: Cluster, sweep_of: Make) -> None:
    refused = submit(starved(sweep_of, "launcher.slurm.partition=nosuch"), top_up=False)
    assert (refused.jobs, refused.exit_code) == (0, 1)
    assert "nosuch" in refused.shortfall or "partition" in refused.shortfall
    assert read_submissions(batch_launches(starved(sweep_of).store)[-1]) == []

    cluster.admit(3)
    try:
        sweep = starved(sweep_of, "launcher.workers=6", "launcher.slurm.array_size=2")
        handed = submit(sweep, top_up=False)
    finally:
        cluster.admit_all()
    assert handed.jobs == 2 and handed.exit_code == 1
    assert len(cluster.queue()) == 2
    text = summary(sweep, handed)
    assert "2 jobs submitted" in text and str(handed.arrays[0].array_id) in text and "sbatch says:" in text


def test_a_request_whose_answer_was_lost_is_not_made_twice(
    cluster: Cluster, sweep_of: Make, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = starved(sweep_of, "launcher.workers=2")
    limits = slurm.limits

    def limits_then_silence(settings: SlurmSettings) -> slurm.Limits:
        found = limits(settings)
        cluster.stall(9)  # longer than sbatch waits, so that it gives up on a request which is then granted
        return found

    monkeypatch.setattr(slurm, "limits", limits_then_silence)
    cluster.configure(MessageTimeout="5")
    try:
        handed = submit(sweep, top_up=False)
    finally:
        cluster.configure(MessageTimeout="10")
    assert (handed.jobs, handed.shortfall) == (2, "")
    time.sleep(1)
    assert set(cluster.queue()) == {f"{handed.arrays[0].array_id}_{index}" for index in range(2)}
    assert len(read_submissions(batch_launches(sweep.store)[-1])) == 1


def test_topping_up_counts_live_jobs_and_submits_the_missing_ones(
    cluster: Cluster, sweep_of: Make, until: Until
) -> None:
    sweep = starved(sweep_of, "launcher.workers=3")
    first = submit(sweep, top_up=True)  # nothing is there yet
    assert first.jobs == 3
    for index in (1, 2):
        cluster.command("scancel", f"{first.arrays[0].array_id}_{index}")
    until(lambda: len(cluster.queue()) == 1, 60)
    second = submit(sweep, top_up=True)
    assert (second.live, second.jobs, second.launch) == (1, 2, first.launch)
    third = submit(sweep, top_up=True)
    assert (third.live, third.jobs) == (3, 0)
    assert len(cluster.queue()) == 3

    Control(sweep.store).cancel()
    cluster.clear()
    fourth = submit(sweep, top_up=True)
    assert fourth.jobs == 3 and fourth.launch != first.launch, "workers of a cancelled launch would leave at once"


def test_a_job_that_dies_before_python_is_shown_with_the_end_of_its_log(
    cluster: Cluster, sweep_of: Make, until: Until
) -> None:
    sweep = sweep_of(1, 1, "launcher.workers=1", "launcher.slurm.python=/no/such/venv/bin/python")
    handed = submit(sweep, top_up=False)
    until(lambda: not cluster.queue(), 60)
    batch = collect_tasks(sweep.store)
    [task] = batch.tasks
    assert (task.task, task.state) == (f"{handed.arrays[0].array_id}_0", TaskState.NEVER_STARTED)
    text = "\n".join(batch.lines())
    assert "1 never started" in text and "/no/such/venv/bin/python: No such file" in text and task.log in text


def test_a_job_whose_worker_cannot_work_is_shown_as_failed(cluster: Cluster, sweep_of: Make, until: Until) -> None:
    sweep = sweep_of(1, 1, "launcher.workers=1")
    submit(sweep, top_up=False)
    [plan] = sweep.store.root.glob("jobs/*/plan.jsonl")
    plan.unlink()  # while the job waits to be scheduled
    until(lambda: not cluster.queue(), 60)
    batch = collect_tasks(sweep.store)
    assert [task.state for task in batch.tasks] == [TaskState.FAILED]
    text = "\n".join(batch.lines())
    assert "1 failed" in text and "FileNotFoundError" in text


def test_the_command_line_submits_shows_and_waits(
    cluster: Cluster, sweep_of: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = sweep_of(2, 1)
    transcripts = json.dumps(str(tmp_path / "transcripts"))
    planned = [f"problem={PROBLEM}", f"model.transcript={transcripts}", "tracking=none", "seed=0,1", "name=tiny"]
    asked = [*planned, "launcher=slurm", "launcher.workers=1", "launcher.slurm.cpus=1", "launcher.slurm.memory_gb=1"]
    outputs = ["--out", str(sweep.outputs)]
    assert main(["run", *asked, *outputs, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["jobs"], said["pending"], len(said["arrays"])) == (1, 2, 1)
    assert main(["status", *asked, *outputs]) == 0
    assert "0 of 2 done" in (text := capsys.readouterr().out) and "SLURM jobs: 1 " in text
    assert main(["wait", *planned, *outputs, "--patience", "1"]) == 0  # shorter than SLURM takes to start a job
    assert "2 of 2 done" in capsys.readouterr().out
    assert main(["run", *asked, *outputs, "--top-up"]) == 0
    assert "all 2 cells are done" in capsys.readouterr().out


def test_a_submission_from_within_a_job_knows_nothing_of_that_job(
    cluster: Cluster, sweep_of: Make, until: Until, all_done: Done, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "SLURM_ARRAY_JOB_ID": "77",
        "SLURM_ARRAY_TASK_ID": "5",
        "SLURM_RESTART_COUNT": "9",
        "SLURM_MEM_PER_NODE": "999999",
        "SBATCH_PARTITION": "nosuch",
        "SBATCH_ARRAY_INX": "0-9",
        "SBATCH_EXPORT": "NONE",
        "SQUEUE_FORMAT": "%i",
        "CUDA_VISIBLE_DEVICES": "3",
    }.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    sweep = sweep_of(2, 1, "launcher.workers=1", "launcher.slurm.partition=cpu")
    handed = submit(sweep, top_up=False)
    assert dict(os.environ) == before
    assert handed.jobs == 1, handed.shortfall
    until(lambda: all_done(sweep) and not cluster.queue(), 60)
    assert [task.state for task in collect_tasks(sweep.store).tasks] == [TaskState.ENDED]
    workers = {path.stem for path in Path(sweep.store.root).glob("jobs/*/workers/*.log")}
    assert f"{handed.arrays[0].array_id}_0" in workers

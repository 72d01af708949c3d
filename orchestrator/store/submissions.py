"""What a launch has asked of a batch system: one pair of files an array, so that any host can say what became of it.

```
<job>/slurm/<name>.json      written before the array is submitted: how many jobs, when
<job>/slurm/<name>.id.json   the batch system's number for it, once it is known
<job>/slurm/<task>.log       what the job of one task printed, the batch script's own complaints included
<job>/slurm/<task>.jsonl     when Python started there, and how it ended
```
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from orchestrator.store.files import read_lines, write_atomic, write_new
from orchestrator.store.job import Job, read_job
from orchestrator.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One array of jobs."""

    job: str
    """The launch."""
    name: str
    """The jobs' name, which no other array has."""
    tasks: int
    """How many jobs, of indices 0 to tasks - 1."""
    at: float
    """Unix seconds."""
    array_id: str | None = None
    """None when the submitter has not learned it."""

    def task_names(self) -> list[str]:
        """`<array id>_<index>` of each job; none while the id is unknown."""
        return [] if self.array_id is None else [f"{self.array_id}_{index}" for index in range(self.tasks)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLife:
    """How far the job of one task has come, by its own account; of a job that was requeued, its last life."""

    started_at: float
    """Unix seconds, by the node's clock."""
    host: str
    code: int | None
    """Exit code; None while it runs, or when it was killed."""


def batch_dir(job: Job) -> Path:
    """Folder of what concerns the batch system."""
    return job.directory / "slurm"


def announce(job: Job, tasks: int, at: float) -> Submission:
    """Give the next array its name, before it is submitted; of two processes at it each gets a name of its own."""
    number = 1 + sum(submission.job == job.id for submission in read_submissions(job))
    while True:
        name = f"{Store(Path(job.root)).name}.{job.id}.{number}"
        submission = Submission(job=job.id, name=name, tasks=tasks, at=at)
        if write_new(batch_dir(job) / f"{name}.json", json.dumps(asdict(submission))):
            return submission
        number += 1


def confirm(job: Job, submission: Submission, array_id: str) -> None:
    """Keep the number that the batch system gave the array."""
    write_atomic(batch_dir(job) / f"{submission.name}.id.json", json.dumps({"array_id": array_id}))


def withdraw(job: Job, submission: Submission) -> None:
    """Forget an array that the batch system has refused."""
    (batch_dir(job) / f"{submission.name}.json").unlink()


def read_submissions(job: Job) -> list[Submission]:
    """The arrays of one launch, first to last."""
    folder = batch_dir(job)
    found = []
    for path in folder.glob(f"*.{job.id}.*.json") if folder.is_dir() else ():
        if path.name.endswith(".id.json"):
            continue
        body = json.loads(path.read_text(encoding="utf-8"))
        known = path.with_suffix(".id.json")
        if known.exists():
            body |= json.loads(known.read_text(encoding="utf-8"))
        found.append(Submission(**body))
    return sorted(found, key=lambda submission: submission.at)


def batch_launches(store: Store) -> list[Job]:
    """The experiment's launches that went to a batch system, first to last."""
    folders = sorted((store.root / "jobs").glob("*/slurm"))
    return [read_job(store, folder.parent.name) for folder in folders]


def read_life(job: Job, task: str) -> TaskLife | None:
    """What the job of a task has noted; None when its Python never started."""
    path = batch_dir(job) / f"{task}.jsonl"
    rows = read_lines(path)[0] if path.exists() else []
    starts = [index for index, row in enumerate(rows) if row["event"] == "start"]
    if not starts:
        return None
    start, *rest = rows[starts[-1] :]
    code = next((row["code"] for row in rest if row["event"] == "end"), None)
    return TaskLife(started_at=start["t"], host=start["host"], code=code)

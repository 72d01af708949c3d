"""What became of the jobs that an experiment has submitted to SLURM: by the store alone, and by squeue where it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.store.job import Job
from orchestrator.store.store import Store
from orchestrator.store.submissions import (
    Submission,
    TaskLife,
    batch_dir,
    batch_launches,
    read_life,
    read_submissions,
)
from orchestrator.sweep import slurm
from orchestrator.sweep.launcher_local import tail


class TaskState(StrEnum):
    """Where one job of an array stands."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    ENDED = "ENDED"
    """It worked until nothing was left, or drained."""
    FAILED = "FAILED"
    """It ended with an exit code."""
    NEVER_STARTED = "NEVER_STARTED"
    """It ended before its Python came up."""
    LOST = "LOST"
    """It was killed, or its node went down, before it could say that it ends."""
    UNKNOWN = "UNKNOWN"
    """It has not said that it ended, and SLURM cannot be asked from here."""


BAD = (TaskState.FAILED, TaskState.NEVER_STARTED, TaskState.LOST)
LIVE = (TaskState.PENDING, TaskState.RUNNING)
NO_LOG = "no log: cancelled before it started, or its node does not see this folder"
SHOWN = 5
"""Jobs that ended badly whose logs a person is shown; the latest are."""
_WORDS = {state: state.value.lower().replace("_", " ") for state in TaskState}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTask:
    """One job of an array."""

    task: str
    """`<array id>_<index>`, as squeue and scancel name it."""
    launch: str
    state: TaskState
    detail: str
    """SLURM's reason while it waits, its node while it runs, the last lines of its log when it ended badly."""
    log: str
    """Path of what it printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStatus:
    """All jobs of an experiment."""

    tasks: list[BatchTask]
    unanswered: str = ""
    """Why SLURM could not be asked; nothing when it could."""

    def count(self, *states: TaskState) -> int:
        """How many are in one of the states."""
        return sum(task.state in states for task in self.tasks)

    @property
    def live(self) -> int:
        """Jobs that run or will."""
        return self.count(*LIVE)

    def lines(self) -> list[str]:
        """For a person: the counts, then each job that ended badly with the end of its log."""
        if not self.tasks:
            return []
        counts = Counter(task.state for task in self.tasks)
        said = ", ".join(f"{counts[state]:,} {_WORDS[state]}" for state in TaskState if counts[state])
        open_question = f"; {self.unanswered}" if counts[TaskState.UNKNOWN] else ""
        found = [f"SLURM jobs: {said}{open_question}"]
        waits = Counter(task.detail for task in self.tasks if task.state is TaskState.PENDING)
        found += [f"  pending  {count:,} for {reason}" for reason, count in waits.most_common()]
        bad = [task for task in self.tasks if task.state in BAD]
        for task in bad[-SHOWN:]:
            found.append(f"  {_WORDS[task.state]}  {task.task}, see {task.log}")
            found += [f"    | {line}" for line in task.detail.splitlines()]
        if len(bad) > SHOWN:
            found.append(f"  ... and {len(bad) - SHOWN:,} earlier ones")
        return found


def collect_tasks(store: Store) -> BatchStatus:
    """Look at every launch that went to SLURM. Works from any host that sees the store."""
    launches = [(job, read_submissions(job)) for job in batch_launches(store)]
    names = [submission.name for _, submissions in launches for submission in submissions]
    queue: dict[str, list[slurm.Queued]] | None = None
    unanswered = ""
    try:
        queue = _by_name(slurm.queued(names))  # asked in any case: a job that has ended may have been put back
    except slurm.SlurmError as error:
        unanswered = str(error)
    tasks = [
        task
        for job, submissions in launches
        for submission in submissions
        for task in _tasks(job, submission, None if queue is None else queue.get(submission.name, []))
    ]
    return BatchStatus(tasks=tasks, unanswered=unanswered)


def _by_name(jobs: list[slurm.Queued]) -> dict[str, list[slurm.Queued]]:
    found: dict[str, list[slurm.Queued]] = {}
    for job in jobs:
        found.setdefault(job.job_name, []).append(job)
    return found


def _tasks(job: Job, submission: Submission, queue: list[slurm.Queued] | None) -> Iterator[BatchTask]:
    """`queue` are the jobs of that name, None when SLURM was not asked."""
    by_task = {queued.task: queued for queued in queue or []}
    # An array whose number the submitter never learned is still found by its name.
    for task in dict.fromkeys([*submission.task_names(), *by_task]):
        log = batch_dir(job) / f"{task}.log"
        state, detail = _state(by_task.get(task), read_life(job, task), queue is not None)
        detail = tail(log) or NO_LOG if state in BAD else detail
        yield BatchTask(task=task, launch=job.id, state=state, detail=detail, log=str(log))


def _state(queued: slurm.Queued | None, life: TaskLife | None, asked: bool) -> tuple[TaskState, str]:
    if queued is not None and queued.state != "COMPLETING":
        running = queued.state == "RUNNING"
        state = TaskState.RUNNING if running else TaskState.PENDING
        return state, queued.node if running else queued.reason
    if life is not None and life.code is not None:
        return (TaskState.FAILED if life.code else TaskState.ENDED), ""
    if not asked:
        return TaskState.UNKNOWN, ""
    return (TaskState.NEVER_STARTED if life is None else TaskState.LOST), ""

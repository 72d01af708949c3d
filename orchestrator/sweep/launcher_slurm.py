"""Workers as SLURM jobs, submitted through submitit in arrays that the site permits.

submitit writes the batch script and calls sbatch. Nothing is pickled: the script becomes `orchestrator.sweep.node`,
which finds all it needs in the store. What was submitted is known from the store and squeue, not from sacct.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import shlex
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from submitit import SlurmExecutor
from submitit.core.utils import FailedJobError, FailedSubmissionError

from orchestrator.settings import CHECKOUT, SlurmSettings
from orchestrator.store.job import Job
from orchestrator.store.submissions import Submission, announce, batch_dir, confirm, withdraw
from orchestrator.sweep import slurm

SUBMIT_TRIES = 2
"""A request that was lost on the way is made once more, after a look for the jobs that it may have made."""
SILENCE_S = 60.0
"""Seconds after a failed sbatch in which the controller may come back, to be asked what became of the request."""
LOOK_PAUSE_S = 0.5


@dataclass(slots=True, kw_only=True)
class Submitted:
    """What came of a request for jobs."""

    arrays: list[Submission] = field(default_factory=list)
    shortfall: str = ""
    """Why there are fewer jobs than were asked for; one sentence, nothing when there are not."""

    @property
    def jobs(self) -> int:
        """Jobs that were submitted."""
        return sum(array.tasks for array in self.arrays)


class SlurmLauncher:
    """Asks for jobs and does not wait for them."""

    def __init__(self, settings: SlurmSettings) -> None:
        self._settings = settings

    def submit(self, job: Job, workers: int) -> Submitted:
        """Submit that many jobs for the launch, as many arrays as it takes; a refusal ends it.

        Raises SlurmError when SLURM is not there or does not answer at all; nothing has been submitted then.
        """
        site = slurm.limits(self._settings)
        room = workers if site.jobs is None else min(workers, site.jobs)
        largest = min(size for size in (site.array_size, self._settings.array_size, workers) if size)
        done = Submitted()
        with slurm.outside_allocations(self._settings):
            while done.jobs < room:
                try:
                    done.arrays.append(self._submit_array(job, min(largest, room - done.jobs), site.answer_s))
                except slurm.SlurmError as error:
                    done.shortfall = str(error)
                    return done
        if room < workers:
            done.shortfall = f"the site permits this user {room} more jobs at the moment"
        return done

    def _submit_array(self, job: Job, tasks: int, answer_s: float) -> Submission:
        submission = announce(job, tasks, time.time())
        executor = self._executor(job, submission)
        for attempt in range(1, SUBMIT_TRIES + 1):
            began = time.monotonic()
            try:
                with contextlib.redirect_stderr(io.StringIO()):  # submitit repeats there what the exception says
                    # Made by hand, as submit() would pickle a function for submitit's own runner.
                    array_id = str(executor._submit_command(_command(job, self._settings)).job_id)
            except (FailedJobError, FailedSubmissionError, OSError) as error:
                lost = time.monotonic() - began >= answer_s
                found = _look_for(submission, answer_s if lost else 0.0)
                if found is not None:
                    array_id = found
                elif lost and attempt < SUBMIT_TRIES:
                    continue
                else:
                    withdraw(job, submission)
                    raise slurm.SlurmError(f"sbatch says: {_last_line(error)}") from error
            confirm(job, submission, array_id)
            break
        return dataclasses.replace(submission, array_id=array_id)

    def _executor(self, job: Job, submission: Submission) -> Any:
        executor = SlurmExecutor(folder=batch_dir(job))
        executor.update_parameters(**_parameters(self._settings, submission.name, job))
        executor.parameters["map_count"] = submission.tasks  # makes it an array; submitit sets it for its own arrays
        return executor


def _parameters(settings: SlurmSettings, name: str, job: Job) -> dict[str, Any]:
    """submitit's parameters. The signal goes to the batch script alone, which is the node's process."""
    gpus: str | int | None = settings.gpus_per_node
    if gpus is not None and settings.gpu_type is not None:
        gpus = f"{settings.gpu_type}:{gpus}"
    extra = {key.replace("-", "_"): value or True for key, value in settings.extra.items()}  # as submitit spells them
    directives = {
        "signal": f"B:USR1@{settings.signal_lead_s}",
        "output": str(batch_dir(job) / "%A_%a.log"),
        "chdir": job.root,
    }
    return {
        "job_name": name,
        "partition": settings.partition,
        "account": settings.account,
        "qos": settings.qos,
        "time": settings.time_limit_min,
        "nodes": 1,
        "ntasks_per_node": 1,
        "gpus_per_node": gpus,
        "cpus_per_task": settings.cpus,
        "mem": None if settings.memory_gb is None else f"{settings.memory_gb}G",
        "setup": settings.setup or None,
        "array_parallelism": settings.array_parallelism or sys.maxsize,
        "wckey": None,
        "stderr_to_stdout": True,
        "use_srun": False,
        "additional_parameters": {**directives, **extra},
    }


def _command(job: Job, settings: SlurmSettings) -> str:
    """The last line of the batch script, which the shell becomes: a shell in between would keep signals to itself."""
    path = os.pathsep.join(filter(None, [job.code_dir or str(CHECKOUT), os.environ.get("PYTHONPATH")]))
    words = [*shlex.split(settings.prefix), settings.python or sys.executable, "-P", "-m", "orchestrator.sweep.node"]
    words += ["--root", job.root, "--job", job.id]
    return f"export PYTHONPATH={shlex.quote(path)}\nexec {shlex.join(words)}"


def _look_for(submission: Submission, patience_s: float) -> str | None:
    """The number of the array if SLURM has it after all, which it may tell only a while after it answers again.

    Raises SlurmError when it does not answer: the array may exist, and its announcement stays.
    """
    gives_up = time.monotonic() + SILENCE_S
    answered: float | None = None
    while True:
        try:
            jobs = slurm.queued([submission.name])
        except slurm.SlurmError as error:
            if time.monotonic() > gives_up:
                raise slurm.SlurmError(
                    f"sbatch failed, and then {error}; `kernelsweep status` says later whether {submission.name} exists"
                ) from error
        else:
            answered = time.monotonic() if answered is None else answered
            if jobs:
                return jobs[0].task.partition("_")[0]
            if time.monotonic() - answered >= patience_s:
                return None
        time.sleep(LOOK_PAUSE_S)


def _last_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__

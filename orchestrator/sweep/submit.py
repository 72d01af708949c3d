"""One sweep handed to SLURM: its jobs are submitted, and this process does not wait for them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field

from orchestrator.settings import ConfigError, LauncherSettings
from orchestrator.store.job import Job, PlannedCells, new_job_id
from orchestrator.store.submissions import Submission, batch_launches
from orchestrator.sweep import slurm
from orchestrator.sweep.jobs import collect_tasks
from orchestrator.sweep.launcher_slurm import SlurmLauncher
from orchestrator.sweep.run import Sweep, prepare
from orchestrator.sweep.runner import mend

_OWNED = {"array", "chdir", "error", "job-name", "nodes", "ntasks-per-node", "open-mode", "output", "signal", "time"}
"""Options of sbatch on which the launcher relies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """What was submitted for a sweep."""

    pending: int
    """Cells without a record."""
    live: int
    """Jobs that were there before."""
    jobs: int
    """Jobs submitted now."""
    arrays: list[Submission] = field(default_factory=list)
    shortfall: str = ""
    """Why there are fewer jobs than were asked for; one sentence, nothing when there are not."""
    launch: str | None = None
    """The launch that the jobs work for; None when none was submitted."""

    @property
    def exit_code(self) -> int:
        """1 when jobs are lacking."""
        return 1 if self.shortfall else 0


def check(settings: LauncherSettings) -> None:
    """Raise ConfigError when the settings contradict themselves."""
    site = settings.slurm
    if site.gpu_type is not None and site.gpus_per_node is None:
        raise ConfigError("launcher.slurm.gpu_type needs launcher.slurm.gpus_per_node, the number of GPUs of one job")
    owned = sorted(_OWNED & {key.replace("_", "-") for key in site.extra})
    if owned:
        raise ConfigError(f"launcher.slurm.extra cannot set {owned[0]}: the launcher does, from its own settings")
    try:
        shlex.split(site.prefix)
    except ValueError as error:
        raise ConfigError(f"launcher.slurm.prefix is not a command that a shell can read: {error}") from error
    if site.time_limit_min is not None and site.signal_lead_s >= site.time_limit_min * 60:
        raise ConfigError(
            f"launcher.slurm.signal_lead_s={site.signal_lead_s} is not shorter than launcher.slurm.time_limit_min="
            f"{site.time_limit_min}, so that jobs would drain as soon as they start"
        )


def submit(sweep: Sweep, *, top_up: bool) -> Handed:
    """Submit the jobs of a new launch; with `top_up` only those that the latest launch lacks of `launcher.workers`.

    Raises ConfigError, and SlurmError when nothing could be submitted because SLURM is not there.
    """
    check(sweep.launcher)
    slurm.require_slurm()
    store = sweep.store
    done = store.rows()
    pending = {uid: cell for uid, cell in sweep.cells.items() if uid not in done}
    status = collect_tasks(store)
    if status.unanswered:
        raise slurm.SlurmError(f"the jobs that are there cannot be counted: {status.unanswered}")
    wanted = sweep.launcher.workers - status.live if top_up else sweep.launcher.workers
    if not pending:
        mend(store, f"mend-{new_job_id()}")  # jobs that were killed may have left records without page and row
    if not pending or wanted <= 0:
        return Handed(pending=len(pending), live=status.live, jobs=0)
    job = (_latest_launch_of(sweep, set(pending)) if top_up else None) or prepare(sweep, pending)
    submitted = SlurmLauncher(sweep.launcher.slurm).submit(job, wanted)
    return Handed(
        pending=len(pending),
        live=status.live,
        jobs=submitted.jobs,
        arrays=submitted.arrays,
        shortfall=submitted.shortfall,
        launch=job.id,
    )


def summary(sweep: Sweep, handed: Handed) -> str:
    """What was submitted, what was not and why, and how to follow it."""
    name = sweep.name
    if not handed.pending:
        return f"{name}: all {len(sweep.cells):,} cells are done, so nothing was submitted"
    said = [f"{name}: {handed.pending:,} cells pending, {_jobs(handed.jobs)} submitted"]
    said += [f"  {array.array_id}  {_jobs(array.tasks)}  {array.name}" for array in handed.arrays]
    if handed.live:
        said.append(f"{_jobs(handed.live)} of this experiment were there before")
    if handed.shortfall:
        said.append(f"{handed.shortfall}; `kernelsweep run --top-up` with the same arguments submits what is lacking")
    said.append(
        "follow with `kernelsweep status` or `kernelsweep wait`, stop with `kernelsweep cancel`; same arguments"
    )
    return "\n".join(said)


def _latest_launch_of(sweep: Sweep, pending: set[str]) -> Job | None:
    """The latest launch at SLURM if it has all the pending cells, so that its count of tries goes on.

    None as well when it was cancelled: its workers would leave at once.
    """
    launches = batch_launches(sweep.store)
    if not launches or launches[-1].cancelled_path.exists():
        return None
    return launches[-1] if pending <= set(PlannedCells(launches[-1]).uids) else None


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"

"""Where the cells of a job run. A launcher returns when every cell is finished or given up for this job."""

from __future__ import annotations

from typing import Protocol

from orchestrator.settings import LauncherKind, LauncherSettings
from orchestrator.store.job import Job
from orchestrator.sweep.launcher_local import LocalLauncher
from orchestrator.sweep.worker import Worker


class Launcher(Protocol):
    """Runs jobs."""

    def launch(self, job: Job) -> None:
        """Work until nothing of the job is left to do. On an exception, SystemExit included, leaves no process."""
        ...


class InlineLauncher:
    """One cell after the other in this process."""

    def launch(self, job: Job) -> None:
        """Be the only worker."""
        Worker(job, "0").run()


def build_launcher(settings: LauncherSettings) -> Launcher:
    """The launcher that the config asks for; SLURM's does not wait for its jobs, see `submit.py`."""
    match settings.kind:
        case LauncherKind.inline:
            return InlineLauncher()
        case LauncherKind.local:
            return LocalLauncher(settings.workers)
        case LauncherKind.slurm:
            raise ValueError("launcher=slurm is not waited for; submit it instead")

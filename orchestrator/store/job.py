"""One launch: what its workers need to know, written before the first of them starts and never changed."""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from evaluation.serialize import from_plain, to_plain
from orchestrator.cell import Cell
from orchestrator.limits.settings import LimitsSettings
from orchestrator.settings import CHECKOUT, LauncherKind, LauncherSettings
from orchestrator.store.files import write_atomic
from orchestrator.store.leases import LEASE_S
from orchestrator.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The pending cells of one `run`, in order."""

    id: str
    """`20261130T143619Z-4711`: when, and by which process."""
    root: str
    """The store's folder."""
    cache_dir: str
    """Where native builds are kept."""
    code_dir: str | None = None
    """The copy of the code that its workers run; None is the checkout."""
    attempts_max: int = 3
    """How often one launch takes up a cell that fails on our side; passing failures of the provider do not count."""
    agents: int | None = None
    """Agent loops that one worker runs at once; None grows with measured waiting."""
    judges: int | None = None
    """Judges that one worker runs at most; None is half its cores."""
    lease_s: float = LEASE_S
    """Seconds without a heartbeat after which others take over a worker's cells."""
    limits: LimitsSettings = field(default_factory=LimitsSettings)
    """What the whole experiment may use, under this launch."""

    @property
    def directory(self) -> Path:
        """The job's own folder in the store."""
        return Store(Path(self.root)).job_dir(self.id)

    @property
    def workers_dir(self) -> Path:
        """Journals and logs of its workers."""
        return self.directory / "workers"

    @property
    def cancelled_path(self) -> Path:
        """Its workers stop after their turns once this file is there."""
        return self.directory / "cancelled"


class PlannedCells:
    """The cells of a job in order, looked up by uid; only their places in the file are held."""

    def __init__(self, job: Job) -> None:
        self._path = job.directory / "plan.jsonl"
        self._offsets: dict[str, int] = {}
        with self._path.open("rb") as lines:
            self._index(lines)

    @property
    def uids(self) -> list[str]:
        """All uids in the order in which they are to be run."""
        return list(self._offsets)

    def cell(self, uid: str) -> Cell:
        """The cell of this uid."""
        with self._path.open("rb") as lines:
            lines.seek(self._offsets[uid])
            return from_plain(Cell, json.loads(lines.readline())["cell"])

    def _index(self, lines: BinaryIO) -> None:
        offset = 0
        for line in lines:
            # The uid stands first, so that 100,000 lines need not be parsed.
            uid = line[len(_LINE_START) : line.index(b'"', len(_LINE_START))].decode()
            self._offsets[uid] = offset
            offset += len(line)


_LINE_START = b'{"uid":"'


def new_job_id() -> str:
    """An id that no other launch takes, in the order of time."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}-{secrets.token_hex(2)}"


def create_job(
    store: Store,
    cells: Mapping[str, Cell],
    cache_dir: Path,
    launcher: LauncherSettings | None = None,
    *,
    code_dir: Path | None = None,
    limits: LimitsSettings | None = None,
) -> Job:
    """Write the plan of a new launch; `cells` by uid, in order."""
    launcher = launcher or LauncherSettings()
    inline = launcher.kind is LauncherKind.inline
    job = Job(
        id=new_job_id(),
        root=str(store.root),
        cache_dir=str(cache_dir),
        code_dir=str(code_dir) if code_dir is not None else None,
        agents=1 if inline and launcher.agents is None else launcher.agents,
        judges=launcher.judges,
        lease_s=launcher.lease_s,
        limits=limits or LimitsSettings(),
    )
    rows = ({"uid": uid, "cell": to_plain(cell)} for uid, cell in cells.items())
    write_atomic(job.directory / "plan.jsonl", "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    write_atomic(job.directory / "job.json", json.dumps(to_plain(job), indent=1) + "\n")
    return job


def read_job(store: Store, job_id: str) -> Job:
    """The job of this id, as a worker finds it."""
    return from_plain(Job, json.loads((store.job_dir(job_id) / "job.json").read_text(encoding="utf-8")))


def worker_command(job: Job, name: str) -> tuple[list[str], dict[str, str]]:
    """The command that starts one worker of the job in any folder, and the variables to set before; for all launchers.

    `-P` keeps the current folder off the module path: the code is the job's, wherever the worker is started.
    """
    command = [sys.executable, "-P", "-m", "orchestrator.sweep.worker"]
    command += ["--root", job.root, "--job", job.id, "--id", name]
    others = [path for path in (os.environ.get("PYTHONPATH"),) if path]
    return command, {"PYTHONPATH": os.pathsep.join([job.code_dir or str(CHECKOUT), *others])}

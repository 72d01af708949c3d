"""What a person or a policy asks of the workers of a store, as files that they look for before each new cell."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from orchestrator.store.files import write_atomic
from orchestrator.store.job import read_job
from orchestrator.store.store import Store


class Pauser(StrEnum):
    """Who has made a pause."""

    PERSON = "PERSON"
    SPENT = "SPENT"
    """The experiment's budget is spent; the next `run` tries again, for its cap may be higher."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Why no new cell is taken, and since when."""

    by: Pauser
    reason: str
    at: float
    """Unix seconds."""


class Control:
    """Written by any process, read by all. The first pause stands until it is lifted."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pause = store.control_dir / "pause.json"
        self._released = store.control_dir / "released.json"

    def pause(self, reason: str, by: Pauser = Pauser.PERSON) -> None:
        """Have the workers take no new cell; what is at work is finished."""
        if self.paused() is None:
            write_atomic(self._pause, json.dumps({"by": by, "reason": reason, "at": time.time()}))

    def paused(self) -> Pause | None:
        """The pause that stands, if any."""
        try:
            body: dict[str, Any] = json.loads(self._pause.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return Pause(by=Pauser(body["by"]), reason=body["reason"], at=body["at"])

    def resume(self) -> Pause | None:
        """Lift the pause; returns the one that stood."""
        stood = self.paused()
        self._pause.unlink(missing_ok=True)
        return stood

    def cancel(self) -> list[str]:
        """Have all workers stop after their turns, also those of queued jobs; returns the jobs. Later ones are free."""
        jobs = sorted(path.parent.name for path in (self._store.root / "jobs").glob("*/job.json"))
        cancelled = [job for name in jobs if not (job := read_job(self._store, name)).cancelled_path.exists()]
        for job in cancelled:
            write_atomic(job.cancelled_path, f"{time.time()}\n")
        return [job.id for job in cancelled]

    def note_release(self) -> None:
        """Tell workers that cells which they had given up may be taken again."""
        write_atomic(self._released, json.dumps({"at": time.time()}))

    def last_release(self) -> float | None:
        """Unix seconds of the last release, by its writer's clock; to be compared with itself only."""
        try:
            at: float = json.loads(self._released.read_text(encoding="utf-8"))["at"]
        except FileNotFoundError:
            return None
        return at

"""The processes of an experiment: who is at work, who has ended, and since when one has been silent.

`members/<id>.json` is replaced by its process every BEAT_S. A process on this host is looked up in the process table,
which proves its death at once. One on another host counts as lapsed when an observer has seen the same beat for LEASE_S
by the observer's own clock, so that hosts need not agree on the time.
"""

from __future__ import annotations

import json
import secrets
import threading
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from orchestrator.limits.clock import Clock
from orchestrator.store.files import write_atomic
from orchestrator.store.leases import Holder, Liveness

BEAT_S = 5.0
LEASE_S = 60.0


class Pulse(StrEnum):
    """What an observer knows of a member."""

    ALIVE = "ALIVE"
    LAPSED = "LAPSED"
    """Silent for LEASE_S: dead, or stopped and perhaps to wake up."""
    DEAD = "DEAD"
    """Ended by itself, or proved dead by this host's process table; it will never act again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a member's file says."""

    id: str
    holder: Holder
    beats: int
    started_at: float
    beaten_at: float
    """Unix seconds, both."""
    charged_nusd: int
    """Spent from the wallet that is open, and set aside for requests under way."""
    reserved_nusd: int
    ended: bool


class Members:
    """The folder of all members, as one of them sees it; its threads share it."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._seen: dict[str, tuple[int, float]] = {}
        self._lock = threading.Lock()

    def pulse(self, member: str) -> Pulse:
        """Whether the member is at work."""
        entry = read_entry(self._directory / f"{member}.json")
        if entry is not None and entry.ended:
            return Pulse.DEAD
        # A network filesystem may hide a new file for a while: one that is not seen proves nothing.
        liveness = Liveness.UNKNOWN if entry is None else entry.holder.liveness()
        if liveness is not Liveness.UNKNOWN:
            return Pulse.ALIVE if liveness is Liveness.ALIVE else Pulse.DEAD
        with self._lock:
            now = self._clock.monotonic()
            beats, since = self._seen.get(member, (-1, now))
            counted = 0 if entry is None else entry.beats
            if counted != beats:
                self._seen[member] = (counted, now)
                return Pulse.ALIVE
            return Pulse.LAPSED if now - since >= LEASE_S else Pulse.ALIVE


class Membership:
    """This process's own entry."""

    def __init__(self, directory: Path, who: str, clock: Clock) -> None:
        self.id = f"{who}-{secrets.token_hex(4)}"
        self._path = directory / f"{self.id}.json"
        self._clock = clock
        self._holder = Holder.current()
        self._started_at = clock.now()
        self._beats = 0

    def beat(self, charged_nusd: int = 0, reserved_nusd: int = 0) -> None:
        """Say that this process is at work, and where its money stands."""
        self._beats += 1
        self._write(charged_nusd, reserved_nusd, ended=False)

    def end(self) -> None:
        """Say that this process holds nothing any more."""
        self._write(0, 0, ended=True)

    def _write(self, charged_nusd: int, reserved_nusd: int, *, ended: bool) -> None:
        entry = Entry(
            id=self.id,
            holder=self._holder,
            beats=self._beats,
            started_at=self._started_at,
            beaten_at=self._clock.now(),
            charged_nusd=charged_nusd,
            reserved_nusd=reserved_nusd,
            ended=ended,
        )
        write_atomic(self._path, json.dumps(asdict(entry)))


def read_entry(path: Path) -> Entry | None:
    """The entry, or None when there is none."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Entry(**{**body, "holder": Holder(**body["holder"])})


def worked_s(directory: Path) -> float:
    """Seconds in which at least one member was at work: the union of their lives."""
    entries = (read_entry(path) for path in directory.glob("*.json")) if directory.is_dir() else ()
    lives = sorted((entry.started_at, entry.beaten_at) for entry in entries if entry is not None)
    total, until = 0.0, 0.0
    for start, end in lives:
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total

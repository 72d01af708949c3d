"""Exclusive claims by numbered files, so that no two processes work on one thing at a time.

A claim is `<number>.claim`, a hard link to the claimer's lease: of many claimers exactly one succeeds, and it costs no
inode. When the holder has ended it (`<number>.end.json`) or its lease has run out, the next claimer takes `number + 1`;
claims are not deleted while they matter, so the highest number is the only valid one (a fencing token): a holder that
wakes up late finds a higher one, and what it brings is refused. No `flock`, `fcntl` or SQLite: NFS, Lustre and GPFS
hang on them or corrupt.
"""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from orchestrator.store.files import sync_directory, write_atomic
from orchestrator.store.leases import Holder, Lease, Liveness, Watch, read_pulse

_CLAIM = re.compile(r"(\d+)\.claim")


class Outcome(StrEnum):
    """How a claim ended. A claim on a cell that has its record needs no such word: the record is the end."""

    DONE = "DONE"
    FAILED = "FAILED"
    """It counts as a try."""
    PARKED = "PARKED"
    """The provider's passing failure: taken again later, and no try."""
    INTERRUPTED = "INTERRUPTED"
    SUPERSEDED = "SUPERSEDED"
    QUARANTINED = "QUARANTINED"
    """The cell ended the process that ran it; taken again only after it was released."""
    RELEASED = "RELEASED"
    """A person's `retry`: what went before no longer counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What was said when the claim ended."""

    outcome: Outcome
    at: float
    """Unix seconds."""
    cause: str = ""
    not_before: float | None = None
    """Unix seconds from which on the next claim may be made; None is at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim as it stands in its folder; `number` is 1 for the first."""

    directory: Path
    number: int
    lease_id: str
    holder: Holder
    job: str
    """The launch on whose behalf it was made."""
    ended: Ended | None = field(default=None, compare=False)

    def liveness(self, watch: Watch) -> Liveness:
        """What is known of its holder; DEAD when the claim has ended or was forgotten."""
        pulse = None if self.ended is not None else read_pulse(self._path)
        return Liveness.DEAD if pulse is None else watch.liveness(pulse)

    def valid(self) -> bool:
        """Whether no later claim exists; asked before anything is committed in the claim's name."""
        return _highest(self.directory) == self.number

    def end(self, outcome: Outcome, cause: str = "", not_before: float | None = None) -> None:
        """Let go. Called by the holder, or by who knows that the holder will not."""
        ended = Ended(outcome=outcome, at=time.time(), cause=cause, not_before=not_before)
        write_atomic(self.directory / f"{self.number}.end.json", json.dumps(asdict(ended)))

    @property
    def _path(self) -> Path:
        return self.directory / f"{self.number}.claim"


def take(directory: Path, lease: Lease, watch: Watch) -> Claim | None:
    """Claim `directory` for the owner of `lease`; None while somebody else holds it, or may hold it."""
    directory.mkdir(parents=True, exist_ok=True)
    number = _highest(directory)
    if number:
        last = _read(directory, number)
        if last is None or last.liveness(watch) is not Liveness.DEAD:
            return None
    if not lease.link(directory / f"{number + 1}.claim"):
        return None
    sync_directory(directory)
    claim = Claim(directory=directory, number=number + 1, lease_id=lease.id, holder=lease.holder, job=lease.job)
    return claim if claim.valid() else None


def history(directory: Path) -> list[Claim]:
    """All claims of a folder, first to last."""
    claims = (_read(directory, number) for number in sorted(_numbers(directory)))
    return [claim for claim in claims if claim is not None]


def forget_earlier(claim: Claim) -> None:
    """Delete the claims before this one; for folders whose history nobody needs. The highest number always stays."""
    for number in _numbers(claim.directory):
        if number < claim.number:
            (claim.directory / f"{number}.end.json").unlink(missing_ok=True)
            (claim.directory / f"{number}.claim").unlink(missing_ok=True)


def _numbers(directory: Path) -> list[int]:
    try:
        with os.scandir(directory) as entries:
            return [int(match[1]) for entry in entries if (match := _CLAIM.fullmatch(entry.name))]
    except FileNotFoundError:
        return []


def _highest(directory: Path) -> int:
    return max(_numbers(directory), default=0)


def _read(directory: Path, number: int) -> Claim | None:
    """The claim, or None when it was forgotten between listing and reading, so that a later one exists."""
    pulse = read_pulse(directory / f"{number}.claim")
    if pulse is None:
        return None
    end = _load(directory / f"{number}.end.json")
    return Claim(
        directory=directory,
        number=number,
        lease_id=pulse.id,
        holder=pulse.holder,
        job=pulse.job,
        ended=None if end is None else Ended(**{**end, "outcome": Outcome(end["outcome"])}),
    )


def _load(path: Path) -> dict[str, Any] | None:
    try:
        body: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return body

"""How far tracking has followed the store. It only saves work: without it everything is found and compared again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orchestrator.store.claims import history
from orchestrator.store.files import append_line, read_lines
from orchestrator.store.index import Row
from orchestrator.store.leases import Liveness, Watch
from orchestrator.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What of one cell has been projected."""

    uid: str
    signature: str
    """What the cell's files looked like then."""
    held: bool
    """Whether a process was at work on it."""
    finished: bool
    """Whether its record was projected, so that nothing more can come unless a person has it run again."""
    attempt: int | None = None
    """The attempt of the projected record."""


class Cursor:
    """A journal with one writer, the process that holds the claim on the destination; the last line per cell counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._watch = Watch()
        self._offset = 0
        self._seen: dict[str, Seen] = {}
        self._parent_behind = False
        self.catch_up()

    @property
    def parent_behind(self) -> bool:
        """Whether cells were projected and the parent run was not brought up to them."""
        return self._parent_behind

    @property
    def at_work(self) -> bool:
        """Whether a process was at work on any of the cells."""
        return any(seen.held for seen in self._seen.values())

    def catch_up(self) -> None:
        """Read what another process has noted since."""
        if not self._path.exists() or self._path.stat().st_size < self._offset:
            self._seen.clear()
            self._parent_behind = False
            self._offset = 0
        if self._path.exists():
            rows, self._offset = read_lines(self._path, self._offset)
            for row in rows:
                self._take(row)

    def due(self, store: Store, finished: Mapping[str, Row]) -> list[Seen]:
        """Cells that have changed since, as their files look now. `finished`: those whose record and page are there."""
        found = []
        for uid in sorted(store.begun()):
            before = self._seen.get(uid)
            row = finished.get(uid)
            if before is not None and before.finished and row is not None and before.attempt == row.attempt:
                continue
            now = self._look(store, uid, row)
            if now is not None and now != before:
                found.append(now)
        return found

    def advance(self, seen: Seen) -> None:
        """Note that this was projected; the parent is behind from then on."""
        self._append(asdict(seen))

    def settle(self) -> None:
        """Note that the parent was brought up to its cells."""
        self._append({"settled": True})

    def reset(self) -> None:
        """Forget everything."""
        self._path.unlink(missing_ok=True)
        self.catch_up()

    def _look(self, store: Store, uid: str, row: Row | None) -> Seen | None:
        """The cell as its files look now; None before its first event."""
        trajectory = store.trajectory_path(uid)
        if not trajectory.exists() or not (size := trajectory.stat().st_size):
            return None
        claims = history(store.attempts_dir(uid))
        held = row is None and bool(claims) and claims[-1].liveness(self._watch) is not Liveness.DEAD
        attempt = row.attempt if row is not None else None
        return Seen(uid=uid, signature=f"{size}/{len(claims)}", held=held, finished=row is not None, attempt=attempt)

    def _append(self, row: dict[str, Any]) -> None:
        append_line(self._path, row)
        self._take(row)

    def _take(self, row: dict[str, Any]) -> None:
        self._parent_behind = "settled" not in row
        if self._parent_behind:
            self._seen[row["uid"]] = Seen(**row)


def cursor_path(store: Store, uri: str, experiment: str) -> Path:
    """Each destination has a cursor of its own."""
    return store.root / "tracking" / f"{hashlib.sha256(f'{uri} {experiment}'.encode()).hexdigest()[:12]}.jsonl"

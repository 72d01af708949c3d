"""Everything that one experiment keeps on disk. `record.json` is the truth about a cell; all else derives from it.

```
<root>/experiment.yaml environment.json layouts.json
<root>/cells/<uid>/cell.json trajectory.jsonl solutions/ attempts/ page.html record.json
<root>/index/<writer>.jsonl                 one row per finished cell
<root>/jobs/<job>/                          plan, journals and logs of the workers of one launch
<root>/leases/<worker>.lease                the heartbeats of those at work; claims are links to them
<root>/control/                             what a person or a policy asks of the workers
```
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from evaluation.serialize import from_plain, to_plain
from orchestrator.cell import SCHEMA_VERSION, Cell, Record
from orchestrator.store.files import Tail, append_line, write_atomic, write_new
from orchestrator.store.index import Row, Standing, withdrawal

T = TypeVar("T", Cell, Record)


class StoreError(Exception):
    """The store contradicts what was asked of it; the message names the folder and the difference."""


class Store:
    """One experiment's folder. Holds no state of its own: many processes may use the same root."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._cells = str(self.cells_dir)  # a Path per cell would double the cost of listing 100,000

    @property
    def name(self) -> str:
        """The experiment's name: its folder."""
        return self.root.name

    @property
    def cells_dir(self) -> Path:
        """Folder of all cells."""
        return self.root / "cells"

    @property
    def index_dir(self) -> Path:
        """Folder of the index's journals."""
        return self.root / "index"

    @property
    def leases_dir(self) -> Path:
        """Folder of the workers' heartbeats."""
        return self.root / "leases"

    @property
    def control_dir(self) -> Path:
        """Folder of what workers are asked to do."""
        return self.root / "control"

    def job_dir(self, job: str) -> Path:
        """Folder of one launch."""
        return self.root / "jobs" / job

    def cell_dir(self, uid: str) -> Path:
        """Folder of one cell."""
        return self.cells_dir / uid

    def trajectory_path(self, uid: str) -> Path:
        """Journal of everything the agent did."""
        return self.cell_dir(uid) / "trajectory.jsonl"

    def attempts_dir(self, uid: str) -> Path:
        """Claims of the processes that worked on the cell."""
        return self.cell_dir(uid) / "attempts"

    def record_path(self, uid: str) -> Path:
        """The cell's record, once it is finished."""
        return self.cell_dir(uid) / "record.json"

    def page_path(self, uid: str) -> Path:
        """The cell's page."""
        return self.cell_dir(uid) / "page.html"

    def write_cell(self, cell: Cell) -> None:
        """Open the cell's folder. Raises StoreError when the folder's stored cell is another one."""
        path = self.cell_dir(cell.uid) / "cell.json"
        if path.exists():
            stored = self.read_cell(cell.uid)
            if differences := list(_differences(_axes(stored), _axes(cell))):
                raise StoreError(
                    f"{path.parent} belongs to another cell than the one planned: {'; '.join(differences[:5])}; "
                    "move that folder away, or choose another experiment name"
                )
            if stored.runtime == cell.runtime:
                return
        write_atomic(path, dump(to_plain(cell)))

    def read_cell(self, uid: str) -> Cell:
        """The cell of a folder. Raises StoreError when it cannot be read."""
        return _load(Cell, self.cell_dir(uid) / "cell.json")

    def is_done(self, uid: str) -> bool:
        """Whether the cell has its record."""
        return self.record_path(uid).exists()

    def read_record(self, uid: str) -> Record | None:
        """The record of a finished cell, else None. Raises StoreError when it cannot be read."""
        path = self.record_path(uid)
        return _load(Record, path) if path.exists() else None

    def commit(self, record: Record, still_mine: Callable[[], bool]) -> bool:
        """Write the record, the last step of a cell; a cell gets one, ever.

        False when the cell was taken over or has a record: this one is then kept as `superseded-<attempt>.json`.
        """
        text = dump(to_plain(record))
        if still_mine() and write_new(self.record_path(record.uid), text):
            return True
        write_atomic(self.cell_dir(record.uid) / f"superseded-{record.attempt}.json", text)
        return False

    def move_aside(self, uid: str, writer: str) -> bool:
        """Make a finished cell one that was never begun, under the claim of who asks; whether it had a record.

        Nothing is deleted: `record-<attempt>.json`, `trajectory-<attempt>.jsonl` and `page-<attempt>.html` stay.
        """
        record = self.read_record(uid)
        if record is None:
            return False
        append_line(self.index_dir / f"{writer}.jsonl", withdrawal(uid, record.attempt))
        for path in (self.trajectory_path(uid), self.page_path(uid), self.record_path(uid)):
            if path.exists():
                path.rename(path.with_stem(f"{path.stem}-{record.attempt}"))
        return True

    def add_to_index(self, record: Record, writer: str) -> None:
        """List a committed record. `writer` is an id that no other process uses."""
        append_line(self.index_dir / f"{writer}.jsonl", Row.of(record).plain())

    def rows(self) -> dict[str, Row]:
        """All finished cells by uid, also those that the index has missed."""
        indexed, unindexed = self._list()
        for uid in unindexed:
            record = self.read_record(uid)
            if record is not None:
                indexed[uid] = Row.of(record)
        return indexed

    def indexed(self, begun: set[str]) -> dict[str, Row]:
        """Finished cells as the index has them, of those with a folder: a hundredth of the calls of `rows`.

        A record that somebody has removed counts, and one that the index has missed does not.
        """
        return {uid: row for uid, row in self._standing().items() if uid in begun}

    def unindexed(self) -> list[str]:
        """Finished cells that the index does not list, because their process was killed before it could."""
        return self._list()[1]

    def begun(self) -> set[str]:
        """Cells that have a folder."""
        if not self.cells_dir.is_dir():
            return set()
        with os.scandir(self.cells_dir) as entries:
            return {entry.name for entry in entries}

    def rebuild_index(self, writer: str) -> int:
        """Replace the index by what the records say; returns their number. No other process may be at work."""
        done = [uid for uid in self.begun() if self.is_done(uid)]
        records = (record for uid in done if (record := self.read_record(uid)) is not None)
        lines = [json.dumps(Row.of(record).plain(), separators=(",", ":")) + "\n" for record in records]
        old = set(self.index_dir.glob("*.jsonl"))
        path = self.index_dir / f"{writer}.jsonl"
        write_atomic(path, "".join(lines))
        for other in old - {path}:
            other.unlink()
        return len(lines)

    def _list(self) -> tuple[dict[str, Row], list[str]]:
        folders = self.begun()
        # The record is the truth, so a row whose record somebody has removed does not count.
        rows = {uid: row for uid, row in self._standing().items() if uid in folders and self._has_record(uid)}
        return rows, [uid for uid in folders if uid not in rows and self._has_record(uid)]

    def _standing(self) -> dict[str, Row]:
        standing = Standing()
        standing.take(Tail(self.index_dir).poll())
        return standing.rows

    def _has_record(self, uid: str) -> bool:
        return os.access(f"{self._cells}/{uid}/record.json", os.F_OK)


def _axes(cell: Cell) -> dict[str, Any]:
    plain: dict[str, Any] = to_plain(cell)
    del plain["runtime"]
    return plain


def _differences(stored: Any, planned: Any, where: str = "") -> Iterator[str]:
    if isinstance(stored, dict) and isinstance(planned, dict):
        for key in sorted(stored.keys() | planned.keys()):
            yield from _differences(stored.get(key), planned.get(key), f"{where}.{key}" if where else key)
    elif stored != planned:
        yield f"{where} is {stored!r} there and {planned!r} here"


def _load(cls: type[T], path: Path) -> T:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        version = data.get("schema_version", SCHEMA_VERSION)
        if version > SCHEMA_VERSION:
            raise ValueError(f"written by a newer version (schema {version}, this one reads {SCHEMA_VERSION})")
        return from_plain(cls, data)
    except (ValueError, KeyError, TypeError, FileNotFoundError) as error:
        raise StoreError(f"cannot read {path}: {error}") from error


def dump(plain: Any) -> str:
    """JSON text for a file that a person may open."""
    return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"

"""The compact list of finished cells: what tables and counts need, without opening 100,000 folders.

`index/<writer>.jsonl`, one writer per file, merged on reading. It is derived: a record that no row names (its process
was killed between the two) is found by the cell's folder and listed all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.cell import Record


class Row(NamedTuple):
    """One finished cell. A tuple, because 100,000 frozen dataclasses take a second longer to make."""

    uid: str
    problem: str
    model: str
    agent: str
    budget: str
    evaluation: str
    seed: int
    verdict: str
    exit_status: str
    attempt: int
    turns: int
    tool_calls: int
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    wall_s: float
    finished_at: str
    """UTC, ISO 8601 with Z."""
    latency_us: float | None = None
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    cached_tokens: int | None = None
    """Part of `prompt_tokens`."""
    tools_s: float | None = None
    """Seconds in tools; None in rows of before it was kept."""
    end_to_end_us: float | None = None
    """From here on figures of a device, beside which latency and speed-up are of device time; None on a CPU."""
    end_to_end_speedup: float | None = None
    end_to_end_speedup_low: float | None = None
    end_to_end_speedup_high: float | None = None
    attested_us: float | None = None
    launch_bound: bool | None = None

    @classmethod
    def of(cls, record: Record) -> Row:
        """The row that says what the record says."""
        cell, usage = record.cell, record.usage
        timing = record.grade.timing if record.grade else None
        plain = timing.end_to_end if timing else None
        return cls(
            uid=record.uid,
            problem=cell.problem,
            model=cell.model,
            agent=cell.agent,
            budget=cell.budget,
            evaluation=cell.evaluation,
            seed=cell.seed,
            verdict=record.verdict,
            exit_status=record.exit_status.value,
            attempt=record.attempt,
            turns=record.turns,
            tool_calls=record.tool_calls,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cost_usd=usage.cost_usd,
            wall_s=record.wall_s,
            finished_at=record.finished_at,
            latency_us=timing.candidate.median_us if timing else None,
            speedup=timing.speedup if timing else None,
            speedup_low=timing.speedup_low if timing else None,
            speedup_high=timing.speedup_high if timing else None,
            cached_tokens=usage.cached_tokens,
            tools_s=record.tools_s,
            end_to_end_us=plain.candidate.median_us if plain else None,
            end_to_end_speedup=plain.speedup if plain else None,
            end_to_end_speedup_low=plain.speedup_low if plain else None,
            end_to_end_speedup_high=plain.speedup_high if plain else None,
            attested_us=timing.attested_us if timing else None,
            launch_bound=timing.launch_bound if timing and plain else None,
        )

    def plain(self) -> dict[str, Any]:
        """As one JSON line says it: without a device's figures where there are none."""
        found = self._asdict()
        return {name: found[name] for name in ALWAYS} if self.end_to_end_us is None else found


DEVICE_FIELDS = Row._fields[Row._fields.index("end_to_end_us") :]
ALWAYS = Row._fields[: -len(DEVICE_FIELDS)]
_NO_DEVICE = (None,) * len(DEVICE_FIELDS)


def parse_row(data: dict[str, Any]) -> Row | None:
    """A row, or None when another version wrote it in other words; the record is then asked instead."""
    names = tuple(data)
    if names == ALWAYS:  # as this version writes it: at a third of the cost
        return Row._make((*data.values(), *_NO_DEVICE))
    if names == Row._fields:
        return Row._make(data.values())
    try:
        return Row(**data)
    except TypeError:
        return None


def withdrawal(uid: str, attempt: int) -> dict[str, Any]:
    """The line that takes back the rows of a cell up to this attempt: its record was moved aside."""
    return {"uid": uid, "withdrawn": attempt}


def finished_uids(directory: Path) -> set[str]:
    """Cells that the index lists and never took back: a hint for who only wants to skip them, at a tenth of the cost of
    their rows.
    """
    listed: set[bytes] = set()
    taken_back: set[bytes] = set()
    for path in directory.glob("*.jsonl") if directory.is_dir() else ():
        with path.open("rb") as lines:
            for line in lines:
                if line.startswith(_START) and line.endswith(b"}\n"):
                    uid = line[len(_START) : line.index(b'"', len(_START))]
                    (taken_back if line.startswith(b',"withdrawn"', len(_START) + len(uid) + 1) else listed).add(uid)
    return {uid.decode() for uid in listed - taken_back}


_START = b'{"uid":"'


class Standing:
    """The rows that stand: of each cell the one of its latest attempt, unless its record was moved aside."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self._withdrawn: dict[str, int] = {}

    def take(self, lines: Iterable[dict[str, Any]]) -> list[Row]:
        """Take further lines, in any order; returns the rows that are new."""
        new = []
        for data in lines:
            if "withdrawn" in data:
                self._withdraw(data["uid"], data["withdrawn"])
                continue
            row = parse_row(data)
            if row is None or row.attempt <= self._withdrawn.get(row.uid, 0):
                continue
            before = self.rows.get(row.uid)
            if before is None or before.attempt < row.attempt:
                self.rows[row.uid] = row
                new.append(row)
        return new

    def _withdraw(self, uid: str, attempt: int) -> None:
        self._withdrawn[uid] = max(attempt, self._withdrawn.get(uid, 0))
        if uid in self.rows and self.rows[uid].attempt <= attempt:
            del self.rows[uid]

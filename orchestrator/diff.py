"""What is new in a plan against what a store has, and why: which field moved, from what to what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.cell import Cell, canonical_json
from orchestrator.identity import moves

_FOLLOWS = {"prompt_sha256": "agent", "transcript_sha256": "model"}
"""Keys that move with another one, which is named instead."""
Signature = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """New cells with one cause."""

    cause: str
    """`budget.turns 15 -> 20`, against the nearest cell that the store has; `the store is empty`."""
    uids: list[str] = field(default_factory=list)


def changes(new: Mapping[str, Cell], stored: Iterable[Cell]) -> list[Change]:
    """The new cells by cause, most cells first. Each is compared with the stored cell that differs in fewest leaves."""
    nearest = Nearest(stored)
    grouped: dict[str, list[str]] = defaultdict(list)
    for uid, cell in new.items():
        grouped[nearest.cause(cell)].append(uid)
    ordered = sorted(grouped.items(), key=lambda item: -len(item[1]))
    return [Change(cause=cause, uids=uids) for cause, uids in ordered]


class Nearest:
    """Finds which of many cells differs from another one in fewest leaves, the seed last.

    Cells of one combination of options differ by seed only, so combinations are compared, each pair of values once.
    """

    def __init__(self, cells: Iterable[Cell]) -> None:
        self._values = _Values()
        self._seeds: dict[Signature, dict[int, Cell]] = defaultdict(dict)
        self._by_problem: dict[str, list[Signature]] = defaultdict(list)
        for cell in cells:
            signature = self._values.signature(cell.identity)
            if signature not in self._seeds:
                self._by_problem[cell.problem].append(signature)
            self._seeds[signature][cell.seed] = cell
        self._found: dict[Signature, Signature | None] = {}

    def cell(self, cell: Cell) -> Cell | None:
        """The nearest cell, of the same seed if that one is there; None when there are none."""
        found = self._nearest(self._values.signature(cell.identity), cell.problem)
        if found is None:
            return None
        seeds = self._seeds[found]
        return seeds.get(cell.seed) or next(iter(seeds.values()))

    def cause(self, cell: Cell) -> str:
        """In what the cell differs from the nearest one."""
        signature = self._values.signature(cell.identity)
        found = self._nearest(signature, cell.problem)
        if found is None:
            return "the store is empty"
        if cell.problem not in self._by_problem:
            return f"problem {cell.problem} is new"
        differing = self._values.differing(found, signature)
        words = [words for key, words in differing.items() if _FOLLOWS.get(key) not in differing]
        return ", ".join(words) if words else f"seed {cell.seed} is new"

    def _nearest(self, signature: Signature, problem: str) -> Signature | None:
        if signature not in self._found:
            near = self._by_problem.get(problem) or self._seeds
            self._found[signature] = min(near, key=lambda one: self._values.distance(one, signature), default=None)
        return self._found[signature]


class _Values:
    """Numbers for the values of identities' keys, so that combinations compare as tuples of numbers."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._values: list[Any] = []
        self._seen: dict[int, tuple[Any, int]] = {}
        self._moves: dict[tuple[str, int | None, int | None], tuple[int, str]] = {}

    def signature(self, identity: Mapping[str, Any]) -> Signature:
        """(key, number of its value) of everything but the seed."""
        return tuple((key, self._number(key, identity[key])) for key in sorted(identity) if key != "seed")

    def distance(self, one: Signature, other: Signature) -> int:
        """Leaves in which they differ."""
        return sum(self._moved(*pair)[0] for pair in _pairs(one, other))

    def differing(self, one: Signature, other: Signature) -> dict[str, str]:
        """Key -> what moved in it, in words; an option of another name is named, not listed leaf by leaf."""
        return {pair[0]: self._moved(*pair)[1] for pair in _pairs(one, other)}

    def _number(self, key: str, value: Any) -> int:
        known = self._seen.get(id(value)) if isinstance(value, dict) else None
        if known is not None:
            return known[1]
        number = self._numbers.setdefault((key, canonical_json(value)), len(self._values))
        if number == len(self._values):
            self._values.append(value)
        if isinstance(value, dict):
            self._seen[id(value)] = value, number  # holds the value, so that its id is not given to another one
        return number

    def _moved(self, key: str, one: int | None, other: int | None) -> tuple[int, str]:
        known = self._moves.get((key, one, other))
        if known is None:
            before, after = ({} if number is None else {key: self._values[number]} for number in (one, other))
            found = moves(before, after)
            renamed = [move for move in found if move.leaf == f"{key}.name" and move.before and move.after]
            words = ", ".join(map(str, found))
            if renamed:
                words = f"{key} {renamed[0].before} -> {renamed[0].after}".replace('"', "")
            known = self._moves[(key, one, other)] = len(found), words
        return known


def _pairs(one: Signature, other: Signature) -> Iterable[tuple[str, int | None, int | None]]:
    left, right = dict(one), dict(other)
    keys = sorted(left.keys() | right.keys())
    return [(key, left.get(key), right.get(key)) for key in keys if left.get(key) != right.get(key)]

"""Two identities compared leaf by leaf, and one of an older version read as this version would write it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.cell import SCHEMA_VERSION, Cell, canonical_json
from orchestrator.plan import VERSIONS, Plan
from orchestrator.settings import settings_of, split
from orchestrator.store.layouts import holds_older_cells
from orchestrator.store.store import Store, StoreError

_SHOWN_CHARS = 60
_HASH_CHARS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One leaf that differs; None where one side has no such leaf."""

    leaf: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        return f"{self.leaf} {self.before or '(absent)'} -> {self.after or '(absent)'}"


def leaves(identity: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """(dotted name, value in short) of everything in an identity, by name."""
    if isinstance(identity, dict) and identity:
        for key in sorted(identity):
            yield from leaves(identity[key], f"{where}.{key}" if where else key)
    else:
        yield where, _shown(where, identity)


def moves(before: Any, after: Any, where: str = "") -> list[Move]:
    """The leaves in which two identities, or two values of one of their keys, differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        found = []
        for key in sorted(before.keys() | after.keys()):
            inner = f"{where}.{key}" if where else key
            if key not in before or key not in after:
                side = before if key in before else after
                values = dict(leaves(side[key], inner))
                found += [
                    Move(leaf=leaf, before=text if side is before else None, after=text if side is after else None)
                    for leaf, text in values.items()
                ]
            else:
                found += moves(before[key], after[key], inner)
        return found
    if before == after and type(before) is type(after):
        return []
    return [Move(leaf=where, before=_shown(where, before), after=_shown(where, after))]


def modern(cell: Cell) -> dict[str, Any] | None:
    """The cell's identity as this version writes it: fields that were added since have their defaults.

    A new field's default means "as before", so an old cell and a planned one with equal modern identities are the same
    point. None when the cell holds something that this version does not know.
    """
    try:
        settings = settings_of(cell)
    except (ValueError, KeyError):
        return None
    sections = {name: split(getattr(settings, name))[0] for name in ("model", "agent", "budget", "evaluation")}
    return {**cell.identity, **sections, "schema_version": SCHEMA_VERSION}


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A plan with the cells that its store has under the names that older versions gave them."""

    plan: Plan
    renamed: int
    """Cells that the store has under an older name; the plan now calls them by it."""
    judged_before: dict[str, str]
    """Planned uid -> uid of a finished cell that differs in the evaluator's version only."""
    strangers: dict[str, Cell]
    """Cells of the store that the plan does not name, by uid."""
    foreign: list[str]
    """Those whose settings this version does not know, so that they could be any, and those that it cannot read."""

    def doubt(self) -> str | None:
        """Why running the plan may do again what the store has already; one sentence, or None when it may not."""
        if self.judged_before:
            planned, stored = next(iter(self.judged_before.items()))
            return (
                f"{_counted(len(self.judged_before))} of the plan done under another version of the evaluator: "
                f"{stored} would be run again as {planned}"
            )
        if self.foreign:
            return (
                f"{_counted(len(self.foreign))} of the store, such as {self.foreign[0]}, written by a version whose "
                "settings this one does not know: they may be among those planned"
            )
        return None


def recognise(plan: Plan, store: Store, *, whole: bool = False) -> Known:
    """Look for the plan's cells in a store that an older version may have written.

    Where the store has every planned cell by its name, or cells of this version only, its other cells are read only if
    `whole` is asked for.
    """
    begun = store.begun()
    wanted = {_digest(uid): uid for uid in plan.cells if uid not in begun}
    searched = whole or (bool(wanted) and holds_older_cells(store))
    strangers, foreign = _read(store, sorted(begun - plan.cells.keys()) if searched else [])
    names: dict[str, Cell] = {}
    judged_before: dict[str, str] = {}
    for uid, cell in strangers.items():
        identity = modern(cell)
        if identity is None:
            foreign.append(uid)
            continue
        planned = wanted.get(_digest(replace(cell, identity=identity).uid))
        if planned is not None and plan.cells[planned].identity == identity:
            names[planned] = replace(cell, runtime=plan.cells[planned].runtime)
            continue
        planned = wanted.get(_digest(replace(cell, identity={**identity, **VERSIONS}).uid))
        if planned is not None and store.is_done(uid):
            judged_before[planned] = uid
    cells = {names[uid].uid if uid in names else uid: names.get(uid, cell) for uid, cell in plan.cells.items()}
    left = {uid: cell for uid, cell in strangers.items() if uid not in cells}
    return Known(
        plan=replace(plan, cells=cells),
        renamed=len(names),
        judged_before=judged_before,
        strangers=left,
        foreign=sorted(foreign),
    )


def _read(store: Store, uids: list[str]) -> tuple[dict[str, Cell], list[str]]:
    """The cells, and the uids of those that cannot be read; a folder that was only just claimed has no cell yet."""
    cells: dict[str, Cell] = {}
    unreadable = []
    for uid in uids:
        try:
            cells[uid] = store.read_cell(uid)
        except StoreError:
            if (store.cell_dir(uid) / "cell.json").exists():
                unreadable.append(uid)
    return cells, unreadable


def _counted(cells: int) -> str:
    return f"{cells:,} cell{'' if cells == 1 else 's'}"


def _digest(uid: str) -> str:
    return uid.rsplit("-", 1)[1]


def _shown(leaf: str, value: Any) -> str:
    if leaf.endswith("sha256") and isinstance(value, str):
        return value[:_HASH_CHARS]
    text = canonical_json(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 3]}..."

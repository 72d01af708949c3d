"""What a page's blocks are made of: labelled figures, each with its value or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from evaluation.verdict import Evaluation

NOT_RECORDED = "not recorded"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `absent` says why there is no value; exactly one of the two is given."""

    label: str
    value: str = ""
    absent: str = ""

    def __post_init__(self) -> None:
        if bool(self.value) == bool(self.absent):
            raise ValueError(f"{self.label}: a row has either a value or the reason of its absence")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A small table of texts."""

    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One titled part of the page; `source` says what measured it."""

    title: str
    source: str = ""
    rows: list[Row] = field(default_factory=list)
    table: Table | None = None
    picture: Markup | None = None

    @property
    def common_absence(self) -> str:
        """The reason that all rows share when none has a value, else empty."""
        reasons = {row.absent for row in self.rows}
        return next(iter(reasons)) if len(reasons) == 1 and len(self.rows) > 1 else ""


def known(value: Any, nothing: str = NOT_RECORDED) -> str:
    """Return `value` as text; None and the empty string become `nothing`."""
    return nothing if value is None or value == "" else str(value)


def unreached(grade: Evaluation | None, part: str) -> str:
    """Say why `part` of the grade does not exist."""
    if grade is None:
        return f"no {part}: no kernel was written, so none was graded"
    return f"no {part}: the evaluation ended as {grade.status} in stage {grade.stage}"

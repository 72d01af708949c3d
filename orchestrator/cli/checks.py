"""What a check of `doctor` comes to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """What a check came to."""

    OK = "ok"
    WEAK = "weak"
    """Sweeps run, with less protection or room than they should have."""
    MISSING = "missing"
    """Sweeps cannot run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the answer."""

    name: str
    state: State
    found: str
    advice: str = ""
    """What to do; nothing when all is well."""

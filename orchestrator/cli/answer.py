"""What a verb gives back to the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DONE, FAILED, USAGE = 0, 1, 2
"""Exit codes: done; something failed on our side; what was asked for cannot be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a verb has found: `text` for a person, `data` for --json."""

    text: str
    data: Any
    code: int = DONE


class UsageError(Exception):
    """What was asked for cannot be; the message is one sentence."""

"""The arguments of a tool call, which a model wrote: parsed, or repaired where only one meaning is possible."""

from __future__ import annotations

import json
import re
from typing import Any

_FENCED = re.compile(r"```(?:json)?[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL | re.IGNORECASE)
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*"|[{\[,]\s*,)|,(\s*[}\]])', re.DOTALL)
"""Group 1 is what only looks like one: a string, or a comma that no value stands before."""


def parse_arguments(text: str) -> dict[str, Any]:
    """The arguments of a call; nothing at all means none. Raises ValueError or RecursionError if they are no object.

    Text that does not parse is repaired in these ways, and no other: a Markdown fence around all of it is taken off,
    raw line ends and tabs inside strings are taken as they stand, a comma before a closing bracket is left out, and
    an object that was encoded twice is decoded twice. Text that was cut, or has something beside the object, stays
    wrong: what is missing or meant cannot be known.
    """
    if not text.strip():
        return {}
    arguments = _loads(text)
    if isinstance(arguments, str):
        arguments = _loads(arguments)
    if not isinstance(arguments, dict):
        raise ValueError(f"expected an object, got {type(arguments).__name__}")
    return arguments


def as_json(text: str) -> str:
    """The arguments as JSON that every provider takes back; `{}` for those that cannot be parsed."""
    try:
        arguments = parse_arguments(text)
    except (ValueError, RecursionError):
        return "{}"
    try:
        plain = json.loads(text)
    except ValueError:
        plain = None
    return text.strip() if isinstance(plain, dict) else json.dumps(arguments)


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        fenced = _FENCED.fullmatch(text.strip())
        repaired = _TRAILING_COMMA.sub(r"\1\2", fenced[1] if fenced else text)
        try:
            return json.loads(repaired, strict=False)
        except ValueError:
            raise error from None  # the model is told about what it wrote

"""What keys the config has, what values they take, and the sentences that say so."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import re
import types
from collections.abc import Iterable
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from orchestrator.settings import ConfigError, RootSettings

RESERVED_NAMES = ("cache", "code", "mlartifacts")
"""Folders under outputs/ that belong to no experiment."""
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=-]*")
_SUFFIX_CHARS = 40


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """One settable key: its dotted name, type, and whether it is part of a cell's identity."""

    name: str
    hint: Any
    identity: bool
    takes: str
    """What it takes, in words."""


def find_key(name: str) -> Key:
    """The field of RootSettings that a dotted name means. Raises ConfigError that names the valid ones."""
    owner: Any = RootSettings
    parts = name.split(".")
    identity = True
    for depth, part in enumerate(parts):
        fields = {
            item.name: item for item in dataclasses.fields(owner) if (owner, item.name) != (RootSettings, "sweep")
        }
        if part not in fields:
            section = ".".join(parts[:depth])
            where = f"{section} has no key" if section else "the config has no group or key"
            names = [*fields] if section else [*fields, "experiment"]
            raise ConfigError(f"{where} {part!r} {choices(part, names)}")
        identity = identity and fields[part].metadata.get("identity", True)
        hint, takes = get_type_hints(owner)[part], fields[part].metadata.get("takes")
        owner = hint if dataclasses.is_dataclass(hint) else None
        if owner is None and depth < len(parts) - 1:
            raise ConfigError(f"{'.'.join(parts[: depth + 1])} holds {takes or describe(hint)}, not further keys")
    if owner is not None:
        keys = ", ".join(f"{name}.{item.name}" for item in dataclasses.fields(owner))
        raise ConfigError(f"{name} is a section: set its keys, {keys}")
    return Key(name=name, hint=hint, identity=identity, takes=takes or describe(hint))


def section_of(key: str) -> str:
    """`budget` of `budget.turns`; nothing of a bare key."""
    return key.partition(".")[0] if "." in key else ""


def choices(given: str, valid: Iterable[str]) -> str:
    """The second half of every sentence about a wrong name: a guess when one is near, and what is valid."""
    names = list(valid)
    near = difflib.get_close_matches(given, names, n=1)
    guess = f"- did you mean {near[0]}? " if near else ""
    return f"{guess}(valid: {', '.join(names)})"


def describe(hint: Any) -> str:
    """A type in words, such as `a whole number or null`."""
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(describe(member) for member in get_args(hint))
    if get_origin(hint) is list:
        return "a list such as [a,b]"
    if get_origin(hint) is dict:
        return "a mapping such as {a: b}"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return "one of " + ", ".join(member.name for member in hint)
    words = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null"}
    return words[hint]


def check_ranges(settings: Any, section: str) -> None:
    """Hold the `choices` and `minimum` that fields declare in their metadata. Raises ConfigError that names the key."""
    for item in dataclasses.fields(settings):
        value, key = getattr(settings, item.name), f"{section}.{item.name}"
        if dataclasses.is_dataclass(value):
            check_ranges(value, key)
        valid, minimum = item.metadata.get("choices"), item.metadata.get("minimum")
        if valid is not None and value not in valid:
            raise ConfigError(f"{key} cannot be {value!r} {choices(str(value), valid)}")
        if minimum is not None and value is not None and value < minimum:
            raise ConfigError(f"{key} cannot be {value}: it must be at least {minimum}")


def require_safe_name(key: str, name: Any) -> str:
    """The name as text. Raises ConfigError when it should not become a part of a path."""
    text = "null" if name is None else str(name)
    if name is None or not _SAFE_NAME.fullmatch(text):
        raise ConfigError(f"{key} cannot be {text!r}: use letters, digits and ._+=-, as it becomes part of a path")
    return text


def suffix(key: str, value: Any) -> str:
    """`.turns=3`: what tells a changed option from the option itself, fit for a path; long values end in a hash."""
    text = re.sub(r"[^A-Za-z0-9._+-]+", "_", _spelled(value)).strip("_")
    if len(text) > _SUFFIX_CHARS:
        text = f"{text[: _SUFFIX_CHARS - 9]}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return f".{key.rsplit('.', 1)[-1]}={text}"


def _spelled(value: Any) -> str:
    """A typed value as it would be written on the command line."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, float):
        return f"{value:.15g}"
    return "null" if value is None else str(value)

"""Dataclasses to JSON and back, by their annotations; the one place where records cross a process or a disk."""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from enum import Enum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Dataclasses, enums, tuples -> dicts, strings, lists. Raises ValueError on NaN or infinity in a float.

    JSON has neither, and a figure that could not be measured is absent, never a stand-in.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} has no place in a record")
    return value


def from_plain(cls: type[T], data: Any) -> T:
    """Build `cls` from `to_plain`'s output. Raises ValueError that names the field on unknown or ill-typed input."""
    built: T = _build(cls, data, cls.__name__)
    return built


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _build(hint: Any, data: Any, where: str) -> Any:
    origin = get_origin(hint)
    if hint is Any:
        return data
    if origin in (Union, types.UnionType):
        return _build_union(hint, data, where)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _build_dataclass(hint, data, where)
    if origin is list:
        return [_build(get_args(hint)[0], item, f"{where}[{i}]") for i, item in enumerate(_expect(list, data, where))]
    if origin is tuple:
        return tuple(_build(get_args(hint)[0], item, where) for item in _expect(list, data, where))
    if origin is dict:
        value_hint = get_args(hint)[1]
        return {key: _build(value_hint, item, f"{where}.{key}") for key, item in _expect(dict, data, where).items()}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(data)
    if hint is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    return _expect(hint, data, where)


def _build_union(hint: Any, data: Any, where: str) -> Any:
    members = get_args(hint)
    if data is None and type(None) in members:
        return None
    rest = [member for member in members if member is not type(None)]
    if len(rest) != 1:
        raise ValueError(f"{where}: unions other than `X | None` are not supported")
    return _build(rest[0], data, where)


def _build_dataclass(cls: type, data: Any, where: str) -> Any:
    hints = _hints(cls)
    names = {f.name for f in dataclasses.fields(cls)}
    unknown = set(_expect(dict, data, where)) - names
    if unknown:
        raise ValueError(f"{where}: unknown field {sorted(unknown)[0]!r}; known are {', '.join(sorted(names))}")
    needed = {f.name for f in dataclasses.fields(cls) if f.init and f.default is f.default_factory}
    if missing := needed - set(data):
        raise ValueError(f"{where}: field {min(missing)!r} is missing")
    return cls(**{key: _build(hints[key], item, f"{where}.{key}") for key, item in data.items()})


def _expect(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        raise ValueError(f"{where}: expected {getattr(kind, '__name__', kind)}, got {type(data).__name__}")
    return data

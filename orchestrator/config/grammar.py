"""Reads `key=value` and sweeps, on the command line and in `sweep:`, with Hydra's own override parser."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override, OverrideType, QuotedString
from hydra.errors import HydraException

from orchestrator.settings import ConfigError

AXIS_LIMIT = 1_000_000
"""Values that one axis may have; more is a slip of the keyboard."""
_PARSER = OverridesParser.create()


@dataclass(frozen=True, slots=True)
class Axis:
    """A key and the values that it takes; one value is an axis of length one. A value may be a `Glob` over names."""

    key: str
    values: list[Any]

    def single(self) -> Any:
        """The only value. Raises ConfigError when there are several."""
        if len(self.values) != 1 or isinstance(self.values[0], Glob):
            raise ConfigError(f"{self.key} takes one value here, it cannot be swept")
        return self.values[0]


@dataclass(frozen=True, slots=True)
class Declared:
    """One grid as it is written: axes of their own, axes that advance together, and what is left out."""

    axes: dict[str, Axis] = field(default_factory=dict)
    zips: list[dict[str, Axis]] = field(default_factory=list)
    exclude: list[dict[str, Axis]] = field(default_factory=list)

    def keys(self) -> Iterator[Axis]:
        """Every axis, wherever it stands."""
        for part in (self.axes, *self.zips, *self.exclude):
            yield from part.values()

    def overridden(self, given: Declared) -> Declared:
        """The grid with what the command line says: its axes replace those of the same name, zipped ones too, its
        `zip` replaces the grid's, and its `exclude` leaves out more.
        """
        replaced = {*given.axes, *(key for one in given.zips for key in one)}
        zips = given.zips or [{k: axis for k, axis in one.items() if k not in replaced} for one in self.zips]
        axes = {key: axis for key, axis in self.axes.items() if key not in replaced}
        return Declared({**axes, **given.axes}, [one for one in zips if one], [*self.exclude, *given.exclude])


def parse_overrides(overrides: Iterable[str]) -> dict[str, Axis]:
    """Parse command-line overrides. Raises ConfigError on bad grammar and on a key that is given twice."""
    axes: dict[str, Axis] = {}
    for text in overrides:
        axis = _parse(text)
        if axis.key in axes:
            raise ConfigError(f"{axis.key} is given twice; sweep it with {axis.key}=A,B")
        axes[axis.key] = axis
    return axes


def declared(mapping: Mapping[str, Any]) -> Declared:
    """Read one grid: axes, and under `zip` and `exclude` a mapping of axes or a list of such mappings.

    Values are strings in the command line's grammar, plain values, or lists of both. Raises ConfigError that names
    the axis.
    """
    parts = {name: [_axes(one, name) for one in _listed(mapping.get(name))] for name in ("zip", "exclude")}
    axes = _axes({key: value for key, value in mapping.items() if key not in parts}, "sweep")
    zipped = [key for one in parts["zip"] for key in one]
    for key in zipped:
        if key in axes or zipped.count(key) > 1:
            raise ConfigError(f"{key} is swept twice: by itself or in one zip, not in two places")
    return Declared(axes, parts["zip"], parts["exclude"])


def spelled(value: Any) -> str:
    """A value as the command line's grammar reads it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, list):
        return f"[{','.join(map(spelled, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{key}:{spelled(item)}' for key, item in value.items())}}}"
    if isinstance(value, str):
        return "'" + re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), value) + "'"
    return repr(value)


def parse_grid(grid: Any) -> Declared:
    """Read one mapping of `sweep:`. Raises ConfigError that names the axis."""
    if not isinstance(grid, dict):
        raise ConfigError(f"sweep must be a mapping of axis: values, or a list of such mappings, not {grid!r}")
    return declared({str(key): value for key, value in grid.items()})


def _listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _axes(mapping: Any, name: str) -> dict[str, Axis]:
    if not isinstance(mapping, dict) or not (mapping or name == "sweep"):
        raise ConfigError(f"{name} takes axes with their values, such as {{model:[a,b],seed:[0,1]}}, not {mapping!r}")
    return {str(key): _grid_axis(str(key), value) for key, value in mapping.items()}


def _grid_axis(key: str, value: Any) -> Axis:
    items = value if isinstance(value, list) else [value]
    values: list[Any] = []
    for item in items:
        values.extend(_parse(f"{key}={item}").values if isinstance(item, str) else [item])
    if not values:
        raise ConfigError(f"sweep: axis {key} has no values")
    return Axis(key, values)


def _parse(text: str) -> Axis:
    try:
        override = _PARSER.parse_override(text)
    except HydraException as error:
        raise ConfigError(
            f"cannot read {text!r} as key=value, key=A,B or key=range(0,3): {_first_line(error)}"
        ) from error
    if override.type is not OverrideType.CHANGE or override.package is not None:
        raise ConfigError(f"{text!r}: every key exists already, so write it plainly as key=value")
    if override.is_interval_sweep():
        raise ConfigError(f"{text!r}: an interval names no list of values; use range(start,stop,step)")
    return Axis(override.key_or_group, _values(override, text))


def _values(override: Override, text: str) -> list[Any]:
    if not override.is_sweep_override():
        return [override.value()]
    raw = override._value
    if isinstance(raw, Glob):
        return [raw]
    values = [_unquoted(value) for value in itertools.islice(override.sweep_iterator(), AXIS_LIMIT + 1)]
    if len(values) > AXIS_LIMIT:
        raise ConfigError(f"{text!r} has more than {AXIS_LIMIT} values")
    if not values:
        raise ConfigError(f"{text!r} has no values")
    return values


def _unquoted(value: Any) -> Any:
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, list):
        return [_unquoted(item) for item in value]
    if isinstance(value, dict):
        return {_unquoted(key): _unquoted(item) for key, item in value.items()}
    return value


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__

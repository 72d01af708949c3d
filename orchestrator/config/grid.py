"""Grids: the options that are combined, those that advance together (`zip`), and what is left out (`exclude`)."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.cell import canonical_json
from orchestrator.config.compose import Composer
from orchestrator.config.fields import section_of
from orchestrator.config.grammar import Axis, Declared
from orchestrator.config.options import (
    CLASSES,
    Option,
    asks_model,
    group_option,
    group_values,
    is_recorded,
    leaf,
    option_names,
    problem_values,
    require_recordings,
    seed_values,
)
from orchestrator.settings import ConfigError, split

Step = Mapping[str, Any]
"""What one step of a factor chooses: an Option for each of its axes, a number for seed."""

Problems = Callable[[Axis | None], list[Option]]
"""Finds the problems that an axis means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """Axes that advance together, in `steps`; an axis by itself is a factor too."""

    axes: tuple[str, ...]
    steps: Sequence[Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Axes whose product is taken. Each lists its values once, whether it stands by itself or is part of a zip."""

    problem: list[Option]
    model: list[Option]
    agent: list[Option]
    budget: list[Option]
    evaluation: list[Option]
    seed: Sequence[int]
    zips: list[Factor] = field(default_factory=list)
    exclude: list[dict[str, frozenset[Any]]] = field(default_factory=list)
    """Each rule leaves out the combinations whose labels (or seed) are all among those that it names."""

    @property
    def asks_models(self) -> bool:
        """Whether one of its agents needs a model to answer."""
        return any(asks_model(option) for option in self.agent)

    def axes(self) -> list[tuple[str, Sequence[Any]]]:
        """(name, values) of each axis."""
        return [(name, getattr(self, name)) for name in AXES]

    def factors(self) -> list[Factor]:
        """What the product is taken of, each axis in one of them, in the order of their first axes."""
        zipped = {axis: factor for factor in self.zips for axis in factor.axes}
        alone = {
            name: Factor(axes=(name,), steps=[{name: value} for value in values])
            for name, values in self.axes()
            if name not in zipped
        }
        ordered = [zipped.get(name) or alone[name] for name in AXES]
        return list({factor.axes: factor for factor in ordered}.values())

    def size(self) -> int:
        """Combinations, those that are left out included."""
        return math.prod(len(factor.steps) for factor in self.factors())

    def points(self) -> Iterator[tuple[dict[str, Option], list[int]]]:
        """Each combination of options with its seeds, without what is left out."""
        seedless = [factor for factor in self.factors() if factor.axes != ("seed",)]
        for steps in itertools.product(*(factor.steps for factor in seedless)):
            point = {axis: value for step in steps for axis, value in step.items()}
            seeds = [point.pop("seed")] if "seed" in point else list(self.seed)
            kept = [seed for seed in seeds if not any(_matches(rule, point, seed) for rule in self.exclude)]
            if kept:
                yield point, kept


AXES = tuple(item.name for item in dataclasses.fields(Grid) if item.name not in ("zips", "exclude"))


def build_grid(composed: Composer, declared: Declared, problem_keys: Mapping[str, Any]) -> Grid:
    """Resolve the axes of one grid. `problem_keys` are the keys of the section `problem` that were given.

    Raises ConfigError when an axis names what there is not, or when a zip's axes are of different length.
    """
    axes = declared.axes
    problems = functools.partial(problem_values, composed, values=problem_keys)
    zips = [
        _tied(composed, zips, {key: axis for key, axis in axes.items() if _axis_of(key) in groups}, problems)
        for groups, zips in _components(declared.zips)
    ]
    tied = {name: _distinct([step[name] for step in factor.steps]) for factor in zips for name in factor.axes}
    values: dict[str, Any] = {name: tied.get(name) for name in AXES}
    for group in CLASSES:
        values[group] = values[group] or group_values(composed, group, axes)
    values["problem"] = values["problem"] or problems(axes.get("problem"))
    values["seed"] = values["seed"] or seed_values(composed, axes.get("seed"))
    whole = Grid(**values, zips=zips)
    rules = [_rule(composed, whole, rule, problems) for rule in declared.exclude]
    grid = dataclasses.replace(whole, exclude=rules)
    if any(is_recorded(option) for option in grid.model):
        require_recordings(point for point, _ in grid.points())
    return grid


def _components(zips: list[dict[str, Axis]]) -> list[tuple[set[str], list[dict[str, Axis]]]]:
    """Zips that share an axis are resolved together, as one option is composed of all keys of its group."""
    found: list[tuple[set[str], list[dict[str, Axis]]]] = []
    for one in zips:
        groups, members = {_axis_of(key) for key in one}, [one]
        for other in [other for other in found if other[0] & groups]:
            found.remove(other)
            groups, members = groups | other[0], [*other[1], *members]
        found.append((groups, members))
    return found


def _tied(composed: Composer, zips: list[dict[str, Axis]], axes: Mapping[str, Axis], problems: Problems) -> Factor:
    """One factor of zips and of the axes over the same groups: each step's options are composed of all their keys."""
    expand = functools.partial(_expanded, composed, problems)
    choices: list[list[dict[str, Any]]] = []
    for one in zips:
        columns = {key: expand(axis) for key, axis in one.items()}
        if len({len(column) for column in columns.values()}) > 1:
            lengths = " and ".join(f"{key} has {len(column)}" for key, column in columns.items())
            raise ConfigError(f"zip: {lengths} values; axes that advance together need equally many")
        choices.append([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])
    choices += [[{axis.key: value} for value in expand(axis)] for axis in axes.values()]
    names = {_axis_of(key) for one in (*zips, axes) for key in one}
    ordered = tuple(name for name in AXES if name in names)
    composed_once: dict[str, Option] = {}
    steps = []
    for combination in itertools.product(*choices):
        picked = {key: value for part in combination for key, value in part.items()}
        steps.append({name: _option(composed, name, picked, composed_once) for name in ordered})
    return Factor(axes=ordered, steps=steps)


def _expanded(composed: Composer, problems: Problems, axis: Axis) -> list[Any]:
    """The values of one axis of a zip, in their order and with repetitions: a glob is what it matches."""
    if axis.key == "problem":
        return [option for value in axis.values for option in problems(Axis("problem", [value]))]
    if axis.key == "seed":
        return [seed for value in axis.values for seed in seed_values(composed, Axis("seed", [value]))]
    return list(axis.values) if axis.key not in CLASSES else option_names(composed, axis.key, axis)


def _option(composed: Composer, name: str, picked: Mapping[str, Any], composed_once: dict[str, Option]) -> Any:
    if name not in CLASSES:
        return picked[name]
    keys = {key: value for key, value in picked.items() if section_of(key) == name}
    option = picked.get(name, composed.chosen(name))
    known = repr((name, option, sorted(keys.items())))
    if known not in composed_once:
        composed_once[known] = group_option(composed, name, option, keys)
    return composed_once[known]


def _rule(composed: Composer, grid: Grid, rule: Mapping[str, Axis], problems: Problems) -> dict[str, frozenset[Any]]:
    """A rule of `exclude` as the labels that it means, so that a wrong name is refused even if nothing has it."""
    found: dict[str, frozenset[Any]] = {}
    for key, axis in rule.items():
        name = _axis_of(key)
        if name == "seed":
            meant: frozenset[Any] = frozenset(seed_values(composed, axis))
        elif name == "problem":
            meant = frozenset(option.label for option in problems(axis))
        elif key in CLASSES:
            options = option_names(composed, key, axis)
            meant = frozenset(option.label for option in getattr(grid, key) if option.overrides[key] in options)
        else:
            meant = frozenset(
                o.label for o in getattr(grid, name) if leaf(o.identity, key) in _typed(composed, o, key, axis)
            )
        found[name] = found.get(name, meant) & meant
    return found


def _typed(composed: Composer, option: Option, key: str, axis: Axis) -> list[Any]:
    """The values of a rule as the option would hold them: `2` is 2.0 where a number with a fraction may stand."""
    group = section_of(key)
    name = option.overrides[group]
    settings = (composed.settings(group, name, {key: value}, CLASSES[group]) for value in axis.values)
    return [leaf({group: split(one)[0]}, key) for one in settings]


def _matches(rule: Mapping[str, frozenset[Any]], point: Mapping[str, Option], seed: int) -> bool:
    return all((seed if axis == "seed" else point[axis].label) in meant for axis, meant in rule.items())


def _distinct(values: list[Any]) -> list[Any]:
    keys = (value if isinstance(value, int) else canonical_json([value.label, value.identity]) for value in values)
    return list(dict(zip(keys, values, strict=True)).values())


def _axis_of(key: str) -> str:
    """`budget` of `budget.turns` and of `budget`."""
    return section_of(key) or key

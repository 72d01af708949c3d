"""Overrides and `conf/` -> Experiment. Hydra is used here and in the `config_*` neighbours only."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from hydra.core.override_parser.types import Glob

from agents.settings import ModelSettings
from evaluation.serialize import to_plain
from evaluation.settings import EvaluationSettings
from orchestrator.cell import canonical_json
from orchestrator.config.compose import Composer, composer
from orchestrator.config.fields import RESERVED_NAMES, find_key, require_safe_name, section_of
from orchestrator.config.grammar import Axis, Declared, declared, parse_grid, parse_overrides
from orchestrator.config.grid import Grid, build_grid
from orchestrator.config.options import CLASSES, Option, group_values, option_names
from orchestrator.limits.settings import LimitsSettings
from orchestrator.settings import CHECKOUT, ConfigError, LauncherSettings, ProblemSettings, TrackingSettings, join

__all__ = [
    "ConfigError",
    "Experiment",
    "Grid",
    "Option",
    "load_evaluation",
    "load_experiment",
    "load_models",
    "load_tracking",
]

T = TypeVar("T")

CONF = CHECKOUT / "conf"
FIXED_GROUPS = ("experiment", "launcher", "tracking", "limits")
"""Groups that have one option for the whole experiment."""
FIXED_SECTIONS = ("launcher", "tracking", "limits", "problem")
"""Sections whose keys have one value for the whole experiment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A named union of grids, and what its cells share without the result depending on it."""

    name: str
    grids: list[Grid]
    launcher: LauncherSettings
    tracking: TrackingSettings
    limits: LimitsSettings
    overrides: list[str]
    """As they were given, so that the command can be repeated."""

    def asked_models(self) -> dict[str, ModelSettings]:
        """The models that its agents ask, by label."""
        options = [option for grid in self.grids if grid.asks_models for option in grid.model]
        return {
            option.label: join(ModelSettings, option.identity["model"], option.runtime["model"]) for option in options
        }

    def resolved(self) -> str:
        """All that was composed, as YAML: for each axis its options' labels with their settings."""
        plain = {
            "name": self.name,
            "overrides": self.overrides,
            "launcher": to_plain(self.launcher),
            "tracking": to_plain(self.tracking),
            "limits": to_plain(self.limits),
            "grids": [_resolved(grid) for grid in self.grids],
        }
        unshared = json.loads(json.dumps(plain))  # YAML would write what options share as anchors
        return yaml.safe_dump(unshared, sort_keys=False, allow_unicode=True)


def load_experiment(overrides: Sequence[str], *, conf: Path = CONF) -> Experiment:
    """Compose the experiment that the overrides ask for.

    Raises ConfigError, one sentence with the valid choices, on any key, type, option or problem that there is not.
    """
    groups, shared, given = _sorted_out(overrides)
    with composer(conf, groups) as composed:
        name = require_safe_name("name", shared.get("name", composed.root_value("name")))
        if name in RESERVED_NAMES:
            raise ConfigError(
                f"name cannot be {name!r}: outputs/{name} holds what experiments share; take another name"
            )
        problem_keys = _within(shared, "problem")
        grids = [
            build_grid(composed, grid.overridden(given), problem_keys)
            for grid in _declared(composed.root_value("sweep"))
        ]
        launcher = _fixed_section(composed, "launcher", shared, LauncherSettings)
        tracking = _fixed_section(composed, "tracking", shared, TrackingSettings)
        limits = _fixed_section(composed, "limits", shared, LimitsSettings)
    _require_distinct_labels(grids)
    return Experiment(
        name=name, grids=grids, launcher=launcher, tracking=tracking, limits=limits, overrides=list(overrides)
    )


def hydra_composer(experiment: Experiment, *, conf: Path = CONF) -> AbstractContextManager[Composer]:
    """Hydra with the experiment's own file, launcher and tracking chosen."""
    return composer(conf, _sorted_out(experiment.overrides)[0])


def load_evaluation(overrides: Sequence[str], *, conf: Path = CONF) -> tuple[EvaluationSettings, ProblemSettings]:
    """Compose how one candidate is judged, and where its problem is looked for. Raises ConfigError."""
    groups, shared, given = _sorted_out(overrides)
    _require_sections(("evaluation", "problem"), (*groups, *shared), given)
    with composer(conf, {}) as composed:
        values = {key: axis.single() for key, axis in given.axes.items()}
        evaluation, problem = (_only_option(composed, group, given.axes) for group in ("evaluation", "problem"))
        return (
            composed.settings("evaluation", evaluation, _within(values, "evaluation"), EvaluationSettings),
            composed.settings("problem", problem, _within(shared, "problem"), ProblemSettings),
        )


def load_tracking(overrides: Sequence[str], *, conf: Path = CONF) -> TrackingSettings:
    """Compose only where records are projected to. Raises ConfigError."""
    groups, shared, given = _sorted_out(overrides)
    _require_sections(("experiment", "tracking"), (*groups, *shared), given)
    with composer(conf, groups) as composed:
        return _fixed_section(composed, "tracking", shared, TrackingSettings)


def load_models(overrides: Sequence[str], *, conf: Path = CONF) -> list[tuple[str, ModelSettings]]:
    """Compose only the models that are named: (label, settings) of each. Raises ConfigError."""
    groups, shared, given = _sorted_out(overrides)
    _require_sections(("model",), (*groups, *shared), given)
    with composer(conf, {}) as composed:
        options = group_values(composed, "model", given.axes)
    return [(item.label, join(ModelSettings, item.identity["model"], item.runtime["model"])) for item in options]


def _require_sections(sections: Sequence[str], keys: Iterable[str], given: Declared) -> None:
    for key in (*keys, *(axis.key for axis in given.keys())):
        if key.partition(".")[0] not in sections:
            raise ConfigError(f"{key} has no meaning here; this takes {' and '.join(sections)} only")
    if given.zips or given.exclude:
        raise ConfigError("zip and exclude have no meaning here: they are parts of a sweep")


def _sorted_out(overrides: Sequence[str]) -> tuple[dict[str, str], dict[str, Any], Declared]:
    """Overrides as (options of the fixed groups, values of the fixed sections, the grid that they declare)."""
    given = parse_overrides(overrides)
    groups = {group: given.pop(group).single() for group in FIXED_GROUPS if group in given}
    shared = {key: given.pop(key).single() for key in list(given) if key == "name" or section_of(key) in FIXED_SECTIONS}
    for key in shared:
        find_key(key)
    parts: dict[str, Any] = {key: given.pop(key).single() for key in ("zip", "exclude") if key in given}
    grid = dataclasses.replace(declared(parts), axes=given)
    _check_axes(grid)
    return {group: option for group, option in groups.items() if option is not None}, shared, grid


def _declared(sweep: Any) -> list[Declared]:
    """The grids under `sweep:`, one without axes when it says nothing."""
    grids = [parse_grid(grid) for grid in (sweep if isinstance(sweep, list) else [sweep or {}])]
    for grid in grids:
        _check_axes(grid)
    return grids


def _check_axes(grid: Declared) -> None:
    for axis in grid.keys():
        if axis.key in (*CLASSES, "problem", "seed"):
            continue
        key = find_key(axis.key)
        if section_of(axis.key) not in CLASSES:
            raise ConfigError(f"{axis.key} has one value for the whole experiment, it cannot be an axis of sweep")
        if any(isinstance(value, Glob) for value in axis.values):
            raise ConfigError(f"{axis.key} takes {key.takes}; glob(...) chooses among problems and options")
        if not key.identity and (len(axis.values) > 1 or axis.key not in grid.axes):
            raise ConfigError(f"{axis.key} changes no result, so it has one value for the whole experiment")


def _fixed_section(composed: Composer, section: str, shared: Mapping[str, Any], cls: type[T]) -> T:
    return composed.settings(section, composed.chosen(section), _within(shared, section), cls)


def _only_option(composed: Composer, group: str, axes: Mapping[str, Axis]) -> str:
    [option] = option_names(composed, group, axes.get(group))
    return option


def _within(values: Mapping[str, Any], section: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if section_of(key) == section}


def _resolved(grid: Grid) -> dict[str, Any]:
    plain: dict[str, Any] = {axis: [_settings(value) for value in values] for axis, values in grid.axes()}
    if grid.zips:
        plain["zip"] = [[{axis: _label(step[axis]) for axis in one.axes} for step in one.steps] for one in grid.zips]
    if grid.exclude:
        plain["exclude"] = [{axis: sorted(labels) for axis, labels in rule.items()} for rule in grid.exclude]
    return plain


def _settings(value: Option | int) -> Any:
    return value if isinstance(value, int) else {value.label: {**value.identity, "runtime": value.runtime}}


def _label(value: Option | int) -> str | int:
    return value if isinstance(value, int) else value.label


def _require_distinct_labels(grids: list[Grid]) -> None:
    """Tables group by label, so one label must not mean two things."""
    for group in CLASSES:
        meanings: dict[str, str] = {}
        for option in (option for grid in grids for option in getattr(grid, group)):
            meaning = canonical_json(option.identity)
            if meanings.setdefault(option.label, meaning) != meaning:
                raise ConfigError(
                    f"two different settings of {group} are both called {option.label!r}; set {group}.name"
                )

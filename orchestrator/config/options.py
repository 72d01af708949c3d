"""Axes -> options: each value of an axis with what it adds to a cell's identity and runtime."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hydra.core.override_parser.types import Glob

from agents.errors import AgentConfigError
from agents.factory import TOOLS, check_tools
from agents.prompts import prompt_hash
from agents.settings import AgentKind, AgentSettings, BudgetSettings, ModelKind, ModelSettings, tool_set_of
from agents.window import room_tokens
from evaluation.settings import EvaluationSettings
from orchestrator.cell import canonical_json
from orchestrator.config.compose import Composer
from orchestrator.config.fields import choices, find_key, require_safe_name, suffix
from orchestrator.config.grammar import Axis
from orchestrator.settings import CHECKOUT, ConfigError, ProblemSettings, library_path, open_library, split
from problems.problem import ProblemError

CLASSES: dict[str, type[Any]] = {
    "model": ModelSettings,
    "agent": AgentSettings,
    "budget": BudgetSettings,
    "evaluation": EvaluationSettings,
}
"""Groups whose options and keys may be axes, and the dataclass of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One value of one axis: what it adds to a cell's identity and runtime, each under its section's name."""

    label: str
    identity: dict[str, Any]
    runtime: dict[str, Any]
    overrides: dict[str, Any] = field(default_factory=dict)
    """What Hydra is told for it: the group's option and the keys that were set; nothing for a problem."""


def group_values(composed: Composer, group: str, axes: Mapping[str, Axis]) -> list[Option]:
    """The product of a group's options and of the axes over its keys. Raises ConfigError."""
    inner = [axis for key, axis in axes.items() if key.startswith(f"{group}.")]
    found: dict[str, Option] = {}
    for name in option_names(composed, group, axes.get(group)):
        for combination in itertools.product(*(axis.values for axis in inner)):
            values = {axis.key: value for axis, value in zip(inner, combination, strict=True)}
            option = group_option(composed, group, name, values)
            found.setdefault(canonical_json([option.label, option.identity]), option)
    return list(found.values())


def group_option(composed: Composer, group: str, name: str, values: Mapping[str, Any]) -> Option:
    """One option of a group with some of its keys set. Raises ConfigError."""
    settings = composed.settings(group, name, values, CLASSES[group])
    identity, runtime = split(settings)
    label = require_safe_name(f"{group}.name", getattr(settings, "name", name))
    if f"{group}.name" not in values:
        # In one order, whatever order they were given in: the label is part of the uid.
        changed = sorted(composed.changed(group, name, settings, values).items())
        label += "".join(suffix(key, tool_set_of(value)) for key, value in changed if find_key(key).identity)
    added: dict[str, Any] = {group: identity}
    if isinstance(settings, AgentSettings):
        added["prompt_sha256"] = _checked_prompt(settings)
    if isinstance(settings, ModelSettings):
        _check_room(settings)
        added.update(_checked_transcript(settings))
    return Option(label=label, identity=added, runtime={group: runtime}, overrides={group: name, **values})


def leaf(identity: Mapping[str, Any], key: str) -> Any:
    """The plain value at a dotted key such as `budget.turns`."""
    value: Any = identity
    for part in key.split("."):
        value = value[part]
    return value


def option_names(composed: Composer, group: str, axis: Axis | None) -> list[str]:
    """The options of a group that its axis names, or the one it has without. Raises ConfigError that lists them."""
    if axis is None:
        return [composed.chosen(group)]
    options = composed.options(group)
    names: list[str] = []
    for value in axis.values:
        found = value.filter(options) if isinstance(value, Glob) else [value] if value in options else []
        if not found:
            given = "/".join(value.include) if isinstance(value, Glob) else str(value)
            raise ConfigError(f"{group} has no option {given!r} {choices(given, options)}")
        names.extend(found)
    return names


def problem_values(composed: Composer, axis: Axis | None, values: Mapping[str, Any]) -> list[Option]:
    """The problems that the axis selects, each once: a value is an option of the group, a name, or a glob of names.

    `values` are the keys of the section that were given (problem.source, problem.path, problem.select).
    Raises ConfigError, with the nearest names where a name is wrong.
    """
    found: dict[str, Option] = {}
    for value in axis.values if axis is not None else [composed.chosen("problem")]:
        is_option = value in composed.options("problem")
        settings = composed.settings(
            "problem", value if is_option else composed.chosen("problem"), values, ProblemSettings
        )
        try:
            for option in _problems(settings, settings.select if is_option else [value]):
                found.setdefault(canonical_json(option.identity), option)
        except ProblemError as error:
            hint = "" if is_option else f"; or give a source: {', '.join(composed.options('problem'))}"
            raise ConfigError(f"{error}{hint}") from error
    return list(found.values())


def asks_model(agent: Option) -> bool:
    """Whether the agent needs a model to answer."""
    return bool(agent.identity["agent"]["kind"] != AgentKind.baseline.value)


def is_recorded(model: Option) -> bool:
    """Whether the model replays transcripts."""
    return bool(model.identity["model"]["kind"] == ModelKind.recorded.value)


def require_recordings(points: Iterable[Mapping[str, Option]]) -> None:
    """Raise ConfigError when a recorded model is asked about a problem that it has nothing to say about."""
    found: dict[str, set[str]] = {}
    for point in points:
        model, problem = point["model"], point["problem"]
        if not is_recorded(model) or not asks_model(point["agent"]):
            continue
        folder = CHECKOUT / model.identity["model"]["transcript"]
        have = found.setdefault(str(folder), {path.stem for path in folder.glob("*.yaml")})
        if problem.label.rsplit("/", 1)[-1] not in have:
            raise ConfigError(
                f"model {model.label} has no recording for {problem.label}: "
                f"choose another model, or the problems that it has, {', '.join(sorted(have))}"
            )


def seed_values(composed: Composer, axis: Axis | None) -> list[int]:
    """The seeds, each once. Raises ConfigError when one is not a whole number, or negative."""
    seeds = axis.values if axis is not None else [composed.root_value("seed")]
    for seed in seeds:
        if type(seed) is not int or seed < 0:
            raise ConfigError(f"seed cannot be {seed!r}: it takes whole numbers that are not negative")
    return list(dict.fromkeys(seeds))


def _checked_prompt(settings: AgentSettings) -> str:
    """The hash of the agent's prompt. Raises ConfigError without such a prompt, or with tools that it cannot offer."""
    for name in settings.tools if isinstance(settings.tools, list) else []:
        if isinstance(name, str) and name not in TOOLS:
            raise ConfigError(f"agent.tools cannot hold {name!r} {choices(name, TOOLS)}")
    try:
        check_tools(settings)
        return prompt_hash(settings)
    except AgentConfigError as error:
        raise ConfigError(str(error)) from error


def _check_room(settings: ModelSettings) -> None:
    try:
        room_tokens(settings)
    except AgentConfigError as error:
        raise ConfigError(str(error)) from error


def _problems(settings: ProblemSettings, patterns: list[Any]) -> Iterator[Option]:
    library = open_library(settings)
    path = library_path(settings)
    where = {"source": settings.source.value, "path": str(path) if path is not None else None}
    for pattern in patterns:
        names = pattern.filter(library.names()) if isinstance(pattern, Glob) else library.select(str(pattern))
        if not names:
            raise ProblemError(f"no problem matches glob({','.join(pattern.include)})")
        for name in names:
            source = library.load(name).source_sha256
            yield Option(label=name, identity={"problem": {"name": name, "sha256": source}}, runtime={"problem": where})


def _checked_transcript(settings: ModelSettings) -> dict[str, str]:
    """What a recording adds to the identity: the hash of its folder's files."""
    if settings.kind is ModelKind.litellm and not settings.litellm_model:
        raise ConfigError(f"model {settings.name} does not say which one: give model.litellm_model=PROVIDER/MODEL")
    if settings.kind is not ModelKind.recorded:
        return {}
    root = CHECKOUT / (settings.transcript or "")
    if settings.transcript is None or not root.is_dir():
        raise ConfigError(f"model.transcript cannot be {settings.transcript!r}: it takes a folder of this checkout")
    digest = hashlib.sha256()
    for path in sorted(root.glob("*.yaml")):
        digest.update(
            f"{path.relative_to(root).as_posix()}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode()
        )
    return {"transcript_sha256": digest.hexdigest()}

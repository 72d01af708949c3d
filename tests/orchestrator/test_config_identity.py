"""What names a cell: every field of the settings, but for those marked otherwise."""

import dataclasses
import json
import types
from enum import Enum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from agents.settings import AgentSettings, BudgetSettings, ModelSettings
from evaluation.settings import EvaluationSettings
from orchestrator.cell import Cell
from orchestrator.config.experiment import load_experiment
from orchestrator.config.fields import find_key
from orchestrator.plan import make_plan
from orchestrator.settings import CHECKOUT, ProblemSource, RootSettings, join, settings_of, split

DECLARATIONS = Path(__file__).parents[1] / "data" / "declared_identity.json"
"""Every field of the settings of a cell, under what it is: written by hand, so that each is thought about."""
SETTINGS = (ModelSettings, AgentSettings, BudgetSettings, EvaluationSettings)


def leaves(cls: type, prefix: str = "") -> list[tuple[str, Any, bool]]:
    """(dotted name, type, identity) of every field that is no section."""
    found = []
    for item in dataclasses.fields(cls):
        hint, name = get_type_hints(cls)[item.name], f"{prefix}{item.name}"
        if dataclasses.is_dataclass(hint):
            found += leaves(hint, f"{name}.")
        else:
            found.append((name, hint, item.metadata.get("identity", True)))
    return found


def other_value(hint: Any, value: Any) -> Any:
    """A value of the type that is not `value`."""
    if get_origin(hint) in (Union, types.UnionType):
        [hint] = [member for member in get_args(hint) if member is not type(None)]
    if isinstance(value, list):
        return [*value, "x"]
    if issubclass(hint, Enum):
        return next(member for member in hint if member is not value)
    if hint is bool:
        return not value
    return f"{value}x" if hint is str else hint((value or 0) + 1)


def changed(settings: Any, path: str) -> Any:
    """A copy of the settings with one leaf changed."""
    head, _, rest = path.partition(".")
    value = getattr(settings, head)
    new = changed(value, rest) if rest else other_value(get_type_hints(type(settings))[head], value)
    return dataclasses.replace(settings, **{head: new})


def cell_of(section: str, settings: Any) -> Cell:
    identity, runtime = split(settings)
    return Cell(
        problem="p",
        model="m",
        agent="a",
        budget="b",
        evaluation="e",
        seed=0,
        identity={section: identity},
        runtime={section: runtime},
    )


FIELDS = [(cls, name, identity) for cls in SETTINGS for name, _, identity in leaves(cls)]


@pytest.mark.parametrize(("cls", "name", "identity"), FIELDS, ids=[f"{c.__name__}.{n}" for c, n, _ in FIELDS])
def test_a_field_changes_the_uid_exactly_when_it_is_identity(cls: type[Any], name: str, identity: bool) -> None:
    before, after = cell_of("s", cls()), cell_of("s", changed(cls(), name))
    assert (before.uid != after.uid) is identity
    assert (before.runtime != after.runtime) is not identity


@pytest.mark.parametrize("cls", SETTINGS)
def test_split_loses_nothing(cls: type[Any]) -> None:
    for name, _, _ in leaves(cls):
        settings = changed(cls(), name)
        assert join(cls, *split(settings)) == settings


def test_every_field_has_a_type_that_the_config_can_hold() -> None:
    """A new type needs words for its error, and members named as their values, as enums go to disk by value."""
    for name, hint, _ in leaves(RootSettings):
        if name == "sweep":
            continue
        assert find_key(name).takes
        for member in get_args(hint) or (hint,):
            if isinstance(member, type) and issubclass(member, Enum):
                assert all(item.name == item.value for item in member), name


@pytest.mark.parametrize("cls", SETTINGS)
def test_every_field_is_declared_to_change_the_result_or_not(cls: type[Any]) -> None:
    """A field that nobody thought about is neither: say in the list what it is, and mark it where it is defined."""
    marked: dict[str, list[str]] = {"identity": [], "runtime": []}
    for name, _, identity in leaves(cls):
        marked["identity" if identity else "runtime"].append(name)
    declared = json.loads(DECLARATIONS.read_text(encoding="utf-8"))[cls.__name__]
    assert {kind: sorted(names) for kind, names in marked.items()} == declared, (
        f"{DECLARATIONS} declares other fields of {cls.__name__}; a field that changes no result needs "
        "metadata={'identity': False}, and a default of one that does must mean 'as before'"
    )


def test_a_cell_holds_all_that_it_runs_with() -> None:
    overrides = ["problem=24", "budget.turns=7", "model.max_attempts=9", "seed=3", "evaluation.limits.call_s=4"]
    [cell] = make_plan(load_experiment(overrides)).cells.values()
    settings = settings_of(cell)
    assert settings.budget.turns == 7
    assert settings.model.max_attempts == 9
    assert settings.evaluation.limits.call_s == 4.0
    assert (settings.seed, settings.problem_name) == (3, "level1/24_row_softmax")
    assert (settings.problem_source, settings.problem_path) == (ProblemSource.own, None)
    assert set(cell.identity) == {
        "problem",
        "model",
        "agent",
        "budget",
        "evaluation",
        "seed",
        "prompt_sha256",
        "transcript_sha256",
        "evaluator_version",
        "schema_version",
    }


def test_sources_outside_the_settings_are_in_the_uid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edited problem file, prompt or recording makes another cell; the same file elsewhere does not."""
    own = CHECKOUT / "problems" / "level1" / "24_row_softmax.py"

    def uid(root: Path, text: str) -> str:
        path = root / "level1" / "24_row_softmax.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        [found] = make_plan(load_experiment(["problem.source=kernelbench", f"problem.path={root}"])).cells
        return found

    source = own.read_text()
    here = uid(tmp_path / "a", source)
    assert uid(tmp_path / "b", source) == here
    assert uid(tmp_path / "a", source + "\n") != here
    monkeypatch.setattr("orchestrator.config.options.prompt_hash", lambda name: f"edited {name}")
    assert uid(tmp_path / "b", source) != here

"""Holds sampled cells of a plan against what Hydra composes from one cell's own overrides."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.prompts import prompt_hash
from orchestrator.cell import Cell, canonical_json
from orchestrator.config.compose import Composer
from orchestrator.config.experiment import CONF, Experiment, hydra_composer
from orchestrator.config.grammar import spelled
from orchestrator.config.options import CLASSES, Option
from orchestrator.plan import VERSIONS, Plan
from orchestrator.settings import ConfigError, split
from problems.library import Library


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Sampled cells that are equal, and what composing each of them took Hydra."""

    cells: int
    compose_s: list[float]


def verify(experiment: Experiment, plan: Plan, count: int, *, conf: Path = CONF) -> Verified:
    """Compose `count` cells, or all if there are fewer, in full. Raises ConfigError that shows the first difference."""
    cells = [(options, seed) for grid in experiment.grids for options, seeds in grid.points() for seed in seeds]
    sampled = random.Random(0).sample(cells, min(count, len(cells)))
    compose_s = []
    with hydra_composer(experiment, conf=conf) as composed:
        for options, seed in sampled:
            began = time.perf_counter()
            cell = _composed(composed, options, seed)
            compose_s.append(time.perf_counter() - began)
            planned = plan.cells.get(cell.uid)
            if planned is None or canonical_json(planned.identity) != canonical_json(cell.identity):
                raise ConfigError(f"Hydra composes {cell.uid} as {canonical_json(cell.identity)}, the plan does not")
            if planned.runtime != cell.runtime:
                raise ConfigError(f"Hydra composes {cell.uid} with {cell.runtime}, the plan with {planned.runtime}")
    return Verified(cells=len(sampled), compose_s=compose_s)


def _composed(composed: Composer, options: dict[str, Option], seed: int) -> Cell:
    """The cell as its own overrides give it; the problem is data behind a name, and read from its file."""
    given = {key: value for name in CLASSES for key, value in options[name].overrides.items()}
    settings = composed.whole([*(f"{key}={spelled(value)}" for key, value in given.items()), f"seed={seed}"])
    problem = options["problem"]
    where = problem.runtime["problem"]
    source = Library(where["source"], Path(where["path"]) if where["path"] else None).load(problem.label)
    identity: dict[str, Any] = {"problem": {"name": source.name, "sha256": source.source_sha256}}
    runtime: dict[str, Any] = {"problem": where}
    for name in CLASSES:
        identity[name], runtime[name] = split(settings[name])
        extra = {key: value for key, value in options[name].identity.items() if key != name}
        identity |= extra | ({"prompt_sha256": prompt_hash(settings["agent"])} if name == "agent" else {})
    labels = {name: option.label for name, option in options.items()}
    return Cell(
        identity={**identity, **VERSIONS, "seed": settings["seed"]}, runtime=runtime, seed=settings["seed"], **labels
    )

"""The nouns of a sweep: one point of the matrix, and all that is kept about it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.protocols import ExitStatus, Usage
from evaluation.verdict import Evaluation

SCHEMA_VERSION = 2
"""Of cells and records. Those of earlier versions are read, and recognised by `orchestrator.identity`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One point of the experiment. `identity` holds what changes the result, and nothing else.

    The other axes' option names are for reading and grouping; the uid comes from the identity alone.
    """

    problem: str
    model: str
    agent: str
    budget: str
    evaluation: str
    seed: int
    identity: dict[str, Any]
    """problem (name, sha256), model, agent (with prompt hash), budget, evaluation, seed, versions."""
    runtime: dict[str, Any] = field(default_factory=dict)
    """What running needs and the result does not depend on: problem path, endpoint, retry policy."""

    @property
    def uid(self) -> str:
        """`23_virtual_all_reduce_mean-recorded-tool_loop-small-s0-1f3a9c0b2d4e`: readable, then 12 hex of the hash."""
        sha256 = hashlib.sha256(canonical_json(self.identity).encode()).hexdigest()
        return uid_of((self.problem, self.model, self.agent, self.budget), self.seed, sha256)


def uid_of(labels: Sequence[str], seed: int, sha256: str) -> str:
    """The uid of a cell: labels of its problem, model, agent and budget; hash of `canonical_json` of its identity."""
    problem, model, agent, budget = labels
    return f"{problem.rsplit('/', 1)[-1]}-{model}-{agent}-{budget}-s{seed}-{sha256[:12]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One verified or failed kernel of the trajectory, in order."""

    turn: int
    tool: str
    solution_sha256: str
    status: str
    latency_us: float | None = None
    speedup: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The truth about one finished cell; written last, by rename. MLflow and every table are projections of it."""

    uid: str
    experiment: str
    cell: Cell
    attempt: int
    """1 for the first process that worked on the cell; each one that took it over adds 1."""
    exit_status: ExitStatus
    verdict: str
    """The grade's status; without a correct kernel the last status seen, or NO_SOLUTION."""
    turns: int
    tool_calls: int
    usage: Usage
    truncated: bool
    llm_s: float
    tools_s: float
    wall_s: float
    started_at: str
    finished_at: str
    """UTC, ISO 8601 with Z."""
    grade: Evaluation | None = None
    graded_sha256: str | None = None
    attempts: list[Attempt] = field(default_factory=list)
    schema_version: int = SCHEMA_VERSION


def canonical_json(value: Any) -> str:
    """Sorted keys, no spaces, no NaN: equal meaning gives equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)

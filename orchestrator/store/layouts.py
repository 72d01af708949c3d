"""Which versions have written a store's cells, so that a store of this version alone need not be searched for others'.

`<root>/layouts.json` lists hashes, each of what an identity holds in one version: its fields, defaults and versions.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from agents.settings import AgentSettings, BudgetSettings, ModelSettings
from evaluation import EVALUATOR_VERSION
from evaluation.settings import EvaluationSettings
from orchestrator.cell import SCHEMA_VERSION, canonical_json
from orchestrator.settings import split
from orchestrator.store.files import write_atomic
from orchestrator.store.store import Store

_FILE = "layouts.json"
_UNKNOWN = "unknown"
"""Whatever wrote the cells that were there before layouts were kept."""


def remember_layout(store: Store) -> None:
    """Note that this version writes cells into the store; called before it writes the first."""
    known = _read(store)
    if known is None:
        known = [_UNKNOWN] if store.begun() else []
    if _layout() not in known:
        write_atomic(store.root / _FILE, json.dumps([*known, _layout()]) + "\n")


def holds_older_cells(store: Store) -> bool:
    """Whether another version may have written some of the store's cells."""
    return _read(store) != [_layout()]


def _read(store: Store) -> list[str] | None:
    path = store.root / _FILE
    if not path.exists():
        return None
    layouts: list[str] = json.loads(path.read_text(encoding="utf-8"))
    return layouts


def _layout() -> str:
    sections = (ModelSettings(), AgentSettings(), BudgetSettings(), EvaluationSettings())
    identity: list[Any] = [SCHEMA_VERSION, EVALUATOR_VERSION, *(split(section)[0] for section in sections)]
    return hashlib.sha256(canonical_json(identity).encode()).hexdigest()

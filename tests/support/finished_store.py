"""Cells of every agent, run from their config to their record; only the judge's process is replaced."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agent_cell import JudgeDouble
from sweeps import call, make_sweep
from text_replies import find

from agents.trajectory import Trajectory
from orchestrator.store.store import Store
from orchestrator.sweep.parking import NoLimits
from orchestrator.sweep.runner import run_cell

REPLIES: list[dict[str, Any]] = [
    {**call("run_correctness", "broken\n# µ"), "reasoning": "First a try."},
    {"text": "Thinking aloud, without a call.", "usage": {"prompt_tokens": 9, "completion_tokens": 9}},
    {
        "tool_calls": [
            {"name": "evaluate_kernel", "arguments": {"kernel_code": "slow"}},
            {"name": "submit_kernel", "arguments": {"kernel_code": "fast"}},
            {"name": "compile_kernel", "arguments": {"kernel_code": "never run"}},
        ]
    },
]
TOOLS = "agent.tools=[run_correctness,compile_kernel,evaluate_kernel,submit_kernel]"
OVERRIDES = {
    "tool_loop": ["agent=tool_loop", TOOLS],
    "single_turn": ["agent=single_turn"],
    "iterative": ["agent=iterative", "budget.turns=3"],
    "best_of_n": ["agent=best_of_n", "agent.best_of_n.tries=2", "agent.best_of_n.turns_per_try=3"],
    "evolve": ["agent=evolve", "agent.evolve.generations=2", "agent.evolve.children=2"],
}
"""What chooses each agent, and a budget that it uses."""


def finished_store(folder: Path, replies: list[dict[str, Any]], *overrides: str) -> Store:
    """The store of a sweep whose model says `replies` in every conversation."""
    folder.mkdir(exist_ok=True)
    sweep = make_sweep(folder, replies, *overrides)
    store = Store(folder / "outputs" / "tiny")
    for cell in sweep.cells.values():
        store.write_cell(cell)
        claim: Any = SimpleNamespace(number=1)
        with Trajectory(store.trajectory_path(cell.uid)) as trajectory:
            record = run_cell(
                cell, claim, NoLimits(), experiment=store.name, trajectory=trajectory, evaluator=JudgeDouble(find)
            )
        assert store.commit(record, lambda: True)
    return store

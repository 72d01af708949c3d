"""Small sweeps through the real config, whose model replays what a test wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from orchestrator.config.experiment import load_experiment
from orchestrator.plan import make_plan
from orchestrator.sweep.run import Sweep

PROBLEM = "level1/24_row_softmax"

RIGHT = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
"""
WRONG = RIGHT.replace("dim=-1)", "dim=-1) * 2")
RAISES = RIGHT.replace("return torch.softmax(x, dim=-1)", "raise RuntimeError('no')")


def call(tool: str, kernel: str | None = None) -> dict[str, Any]:
    """One reply that calls one tool."""
    arguments = {} if kernel is None else {"kernel_code": kernel}
    usage = {"prompt_tokens": 100, "completion_tokens": 20}
    return {"tool_calls": [{"name": tool, "arguments": arguments}], "usage": usage}


def make_sweep(folder: Path, replies: list[dict[str, Any]], *overrides: str) -> Sweep:
    """A sweep over PROBLEM with one judged draw and the shortest clock; what it writes stays under `folder`."""
    transcripts = folder / "transcripts"
    transcripts.mkdir(exist_ok=True)
    text = yaml.safe_dump({"origin": "a test", "problem": PROBLEM, "replies": replies})
    (transcripts / f"{PROBLEM.rsplit('/', 1)[-1]}.yaml").write_text(text)
    return sweep_of(folder, f"model.transcript={json.dumps(str(transcripts))}", *overrides)


def sweep_of(folder: Path, *overrides: str) -> Sweep:
    """The same with whatever model the overrides name."""
    fixed = ["name=tiny", f"problem={PROBLEM}", "evaluation.draws=1", "evaluation.timing.budget_s=0.1", "tracking=none"]
    experiment = load_experiment([*fixed, *overrides])
    return Sweep(
        name=experiment.name,
        cells=make_plan(experiment).cells,
        launcher=experiment.launcher,
        tracking=experiment.tracking,
        limits=experiment.limits,
        resolved=experiment.resolved(),
        outputs=folder / "outputs",
    )

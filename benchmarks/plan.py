"""How long planning 100,000 cells takes, what it holds in memory, and what Hydra takes for one cell.

    python benchmarks/plan.py --out benchmarks/results/plan.json

250 problems in KernelBench's form, 5 models, 4 budgets and 20 seeds, each through `kernelsweep plan` in a process of
its own; then 50 sampled cells composed by Hydra in full and compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from common import ROOT, Json, header, measure, write

LEVELS = {1: 100, 2: 100, 3: 50}
CELLS, VERIFIED = 100_000, 50
MODELS = [f"m{number}" for number in range(5)]
SOURCE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.linear = nn.Linear(features, {number})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.rand(16, 64)]


def get_init_inputs():
    return [64]
"""
GRID = [
    f"model.name={','.join(MODELS)}",
    "model=openai_compatible",
    "model.litellm_model=openai/any",
    "budget.turns=5,10,15,20",
    "seed=range(0,20)",
]


def write_problems(root: Path) -> None:
    """A library of the size and form of KernelBench's levels 1 to 3."""
    for level, count in LEVELS.items():
        folder = root / f"level{level}"
        folder.mkdir(parents=True)
        for number in range(1, count + 1):
            (folder / f"{number}_problem_{number}.py").write_text(SOURCE.format(number=number))


def planned(problems: Path, out: Path, *options: str) -> tuple[Json, Json]:
    """One `kernelsweep plan`: wall and CPU seconds and peak memory, and what it says as JSON."""
    command = [sys.executable, "-m", "orchestrator", "plan", "problem=kernelbench", f"problem.path={problems}", *GRID]
    command += [*options, "--json", "--limit", "1", "--out", str(out)]
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - began
    assert status == 0, f"plan ended with status {status}"
    figures = {"wall_s": wall_s, "cpu_s": usage.ru_utime + usage.ru_stime, "peak_rss_bytes": usage.ru_maxrss * 1024}
    return figures, json.loads(said)


def main() -> None:
    """Measure, write the JSON and show it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "plan.json")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    report = header("hydra-core", "omegaconf")
    with tempfile.TemporaryDirectory(prefix="plan-") as scratch:
        problems, out = Path(scratch) / "problems", Path(scratch) / "outputs"
        write_problems(problems)
        runs = []
        for _ in range(arguments.repeats):
            figures, data = planned(problems, out)
            assert data["cells_total"] == CELLS, data["formula"]
            runs.append(figures)
        _, checked = planned(problems, out, "--verify", str(VERIFIED))
    hydra_s = checked["verified"]["compose_s"]
    report["samples"] = {"formula": data["formula"], "plan": runs, "hydra_compose_s": hydra_s}
    wall_s, cpu_s = (statistics.median(run[key] for run in runs) for key in ("wall_s", "cpu_s"))
    report["measures"] = [
        measure(f"plan {CELLS:,} cells, wall, median", wall_s, "s", "<", 10.0),
        measure(f"plan {CELLS:,} cells, CPU, median", cpu_s, "s"),
        measure("peak memory, largest", max(run["peak_rss_bytes"] for run in runs) / 2**20, "MiB", "<", 1024.0),
        measure("CPU per cell, all included", cpu_s / CELLS * 1e6, "us"),
        measure("Hydra's own composition of one cell, median", statistics.median(hydra_s) * 1e3, "ms"),
        measure("sampled cells equal to Hydra's", float(checked["verified"]["cells"]), "", ">=", VERIFIED),
    ]
    write(report, arguments.out)


if __name__ == "__main__":
    main()

"""KernelBench's own evaluation of one candidate, in a process of its own, as one line of JSON on stdout.

    python benchmarks/kernelbench_evaluate.py CHECKOUT REFERENCE.py CANDIDATE.py

Its evaluation imports packages that only its other parts use (model clients, progress bars, downloads); those that
are not installed are stood in for, so that the evaluation itself is what runs. Needs a GPU, torch and numpy.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
import time
import types
from pathlib import Path
from typing import Any

UNUSED = ("dotenv", "tqdm", "openai", "litellm", "requests", "pydantic", "datasets")


class StandIn:
    """Takes any keyword arguments as attributes, over the class's own: what pydantic's BaseModel is used for."""

    def __init__(self, **given: Any) -> None:
        vars(self).update(given)


class StandInModule(types.ModuleType):
    """Has every name."""

    def __getattr__(self, name: str) -> type[StandIn]:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn


def main() -> None:
    """Evaluate with five correctness trials and KernelBench's timing."""
    checkout, reference, candidate = (Path(word).resolve() for word in sys.argv[1:4])
    began = time.perf_counter()
    stood_in = [name for name in UNUSED if importlib.util.find_spec(name) is None]
    sys.modules |= {name: StandInModule(name) for name in stood_in}
    sys.path.insert(0, str(checkout / "src"))
    from kernelbench.eval import eval_kernel_against_ref

    with tempfile.TemporaryDirectory(prefix="kernelbench-") as build_dir:
        start = time.perf_counter()
        result = eval_kernel_against_ref(
            reference.read_text(),
            candidate.read_text(),
            num_correct_trials=5,
            num_perf_trials=100,
            measure_performance=True,
            build_dir=build_dir,
            device=0,
        )
    ended = time.perf_counter()
    answer = {
        "evaluation_s": ended - start,
        "process_s": ended - began,
        "compiled": result.compiled,
        "correct": result.correctness,
        "runtime": result.runtime,
        "stood_in": stood_in,
    }
    sys.stdout.write("\n" + json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()

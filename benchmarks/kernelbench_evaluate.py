"""KernelBench's own evaluation of candidates, in a process of its own, as one line of JSON on stdout for each.

    python benchmarks/kernelbench_evaluate.py CHECKOUT REFERENCE.py CANDIDATE.py [REFERENCE.py CANDIDATE.py ...]

Its evaluation imports packages that only its other parts use (model clients, progress bars, downloads); those that
are not installed are stood in for, so that the evaluation itself is what runs. Needs a GPU, torch and numpy.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
import time
import types
from collections.abc import Callable
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


def evaluated(evaluate: Callable[..., Any], reference: Path, candidate: Path, build_dir: str) -> dict[str, Any]:
    """One candidate, with five correctness trials and KernelBench's timing. Its times are in milliseconds."""
    start = time.perf_counter()
    result = evaluate(
        reference.read_text(),
        candidate.read_text(),
        num_correct_trials=5,
        num_perf_trials=100,
        measure_performance=True,
        build_dir=build_dir,
        device=0,
    )
    return {
        "evaluation_s": time.perf_counter() - start,
        "compiled": result.compiled,
        "correct": result.correctness,
        "runtime": result.runtime,
        "runtime_stats": result.runtime_stats,
    }


def main() -> None:
    """Evaluate one pair after another. Builds go to a folder of this process, or to --build-dir."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--build-dir", help="where builds are kept, and found again")
    arguments = parser.parse_args()
    if len(arguments.files) % 2:
        parser.error("each reference needs a candidate")
    began = time.perf_counter()
    stood_in = [name for name in UNUSED if importlib.util.find_spec(name) is None]
    sys.modules |= {name: StandInModule(name) for name in stood_in}
    sys.path.insert(0, str(arguments.checkout.resolve() / "src"))
    from kernelbench.eval import eval_kernel_against_ref

    files = iter(arguments.files)
    with tempfile.TemporaryDirectory(prefix="kernelbench-") as own:
        for reference, candidate in zip(files, files, strict=True):
            answer = evaluated(eval_kernel_against_ref, reference, candidate, arguments.build_dir or own)
            answer |= {"process_s": time.perf_counter() - began, "stood_in": stood_in}
            sys.stdout.write("\n" + json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

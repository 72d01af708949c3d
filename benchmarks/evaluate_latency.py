"""From source to verdict: how long one candidate takes, and how many a node judges in a minute.

    python benchmarks/evaluate_latency.py --device cuda --kernelbench CHECKOUT --commit SHA --out FILE.json

CHECKOUT is `git archive HEAD src | tar -x -C CHECKOUT` of KernelBench's repository; nothing of it is installed.

Both seed kernels cold, with the lite headers off, and again from the cache; 32 different candidates at once; with
--kernelbench, KernelBench's own evaluation of the same, both at once in processes of their own, as nearly all of their
time each waits for one compiler.
With --device cpu the same is done with C++ candidates.
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from common import Json, building_header, measure, write  # noqa: E402

from evaluation.client import Evaluator  # noqa: E402
from evaluation.serialize import to_plain  # noqa: E402
from evaluation.settings import EvaluationSettings  # noqa: E402
from evaluation.verdict import Solution, Stage  # noqa: E402
from problems.library import Library  # noqa: E402
from problems.problem import Problem  # noqa: E402

SEEDS = {
    "mean_over_ranks": "level1/23_virtual_all_reduce_mean",
    "gather_linear": "level2/47_virtual_all_gather_concat_linear",
}
CANDIDATES = ROOT / "tests" / "data" / "candidates"
LANGUAGE = {"cpu": "cpp", "cuda": "cuda"}
ON_ONE_GPU = 6
"""Evaluators that share a GPU: one times while the others build, check or wait."""


def solution(seed: str, device: str, *, lite: bool = True, number: int = 0) -> Solution:
    """A seed's candidate; with a number it is a build of its own."""
    source = (CANDIDATES / f"{LANGUAGE[device]}_{seed}.py").read_text()
    if not lite:  # an argument that changes nothing here, but which the lite headers leave to slim and stock
        source = source.replace("functions=[", "with_pytorch_error_handling=False, functions=[")
    if number:
        source = source.replace(
            "#include <torch/extension.h>", f"#include <torch/extension.h>\nstatic const int kNumber = {number};"
        )
    return Solution(source=source, language=LANGUAGE[device])


def judged(evaluator: Evaluator, problem: Problem, given: Solution) -> Json:
    """One evaluation up to its times, and the seconds that it took here."""
    start = time.perf_counter()
    evaluation = evaluator.evaluate(problem, given, Stage.TIMING)
    total_s = time.perf_counter() - start
    plain = to_plain(evaluation)
    tiers = [build.tier for build in evaluation.builds]
    return {"total_s": total_s, "tiers": tiers, **{name: plain[name] for name in ("status", "message", "wall_s")}}


def alone(settings: EvaluationSettings, seed: str, scratch: Path) -> Json:
    """Cold, cold without the lite headers, and from the cache. The server is up: a worker keeps its own."""
    problem = Library("own").load(SEEDS[seed])
    given, without_lite = solution(seed, settings.device), solution(seed, settings.device, lite=False)
    cache = Path(tempfile.mkdtemp(dir=scratch))
    with Evaluator(settings, cache, scratch / "evaluator.log") as evaluator:
        samples: Json = {"server_s": start_up(evaluator)}
        return samples | {
            "cold": judged(evaluator, problem, given),
            "without_lite": judged(evaluator, problem, without_lite),
            "cached": judged(evaluator, problem, given),
        }


def start_up(evaluator: Evaluator) -> float:
    """Have the server up and ready, as a worker has it; the seconds that it took."""
    start = time.perf_counter()
    empty = Solution(source="class ModelNew: pass\n")
    evaluator.evaluate(Library("own").load(SEEDS["mean_over_ranks"]), empty, Stage.BUILD)
    return time.perf_counter() - start


def at_once(settings: EvaluationSettings, count: int, scratch: Path) -> Json:
    """`count` different candidates, cold, given to as many evaluators as fit the machine; one times at a time."""
    problems = {seed: Library("own").load(name) for seed, name in SEEDS.items()}
    jobs = [(seed, number) for number, seed in zip(range(1, count + 1), cycle(SEEDS), strict=False)]
    cache = Path(tempfile.mkdtemp(dir=scratch))
    with ExitStack() as stack:
        most = ON_ONE_GPU if settings.device == "cuda" else count
        workers = range(min(count, most, len(os.sched_getaffinity(0))))
        logs = [scratch / f"evaluator-{number}.log" for number in workers]
        evaluators = [stack.enter_context(Evaluator(settings, cache, log)) for log in logs]
        free: SimpleQueue[Evaluator] = SimpleQueue()
        for evaluator in evaluators:
            free.put(evaluator)

        def run(job: tuple[str, int]) -> Json:
            evaluator = free.get()
            try:
                return judged(evaluator, problems[job[0]], solution(job[0], settings.device, number=job[1]))
            finally:
                free.put(evaluator)

        with ThreadPoolExecutor(max_workers=len(evaluators)) as pool:
            list(pool.map(start_up, evaluators))
            start = time.perf_counter()
            rows = list(pool.map(run, jobs))
        wall_s = time.perf_counter() - start
    return {"wall_s": wall_s, "rows": rows}


def by_kernelbench(checkout: Path, seed: str, device: str, scratch: Path) -> Json:
    """KernelBench's evaluation of the same candidate."""
    reference, candidate = scratch / f"{seed}.py", scratch / f"{seed}_new.py"
    reference.write_text(Library("own").load(SEEDS[seed]).source)
    candidate.write_text(solution(seed, device).source)
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "kernelbench_evaluate.py"),
        *map(str, (checkout, reference, candidate)),
    ]
    extensions = tempfile.mkdtemp(dir=scratch)
    run = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"TORCH_EXTENSIONS_DIR": extensions})
    lines = [line for line in run.stdout.splitlines() if line.startswith('{"evaluation_s"')]
    answer: Json = json.loads(lines[-1]) if lines else {"failed": run.stderr[-2000:]}
    return answer


def measures_of(samples: Json) -> list[Json]:
    """The figures that count, each with its bar."""
    rows = samples["alone"].values()
    kinds = ("cold", "without_lite", "cached")
    cold, without_lite, cached = ([row[kind]["total_s"] for row in rows] for kind in kinds)
    measures = [
        measure("cold evaluation, slowest of the seed kernels", max(cold), "s", "<=", 5),
        measure("cold build, slowest", max(row["cold"]["wall_s"].get("build", 0.0) for row in rows), "s", "<=", 4),
        measure("repeated source, slowest", max(cached), "s", "<=", 2),
        measure("cold evaluation with the lite headers off, slowest", max(without_lite), "s"),
        measure(
            "verdicts that are not PASSED",
            sum(r[k]["status"] != "PASSED" for r in rows for k in kinds),
            "",
            "<=",
            0,
        ),
    ]
    if "at_once" in samples:
        together = samples["at_once"]
        timing_s = sum(row["wall_s"].get("timing", 0.0) for row in together["rows"])
        queue_s = statistics.median(row["wall_s"].get("queue", 0.0) for row in together["rows"])
        measures += [
            measure("different candidates at once", len(together["rows"]) * 60 / together["wall_s"], "1/min", ">=", 20),
            measure("share of that time in which the lane was held", timing_s / together["wall_s"], ""),
            measure("wait for the lane, median", queue_s, "s"),
        ]
    theirs = [row["evaluation_s"] for row in samples.get("kernelbench", {}).values() if "evaluation_s" in row]
    if len(theirs) == len(cold):
        ratios = {
            kind: min(a / b for a, b in zip(theirs, ours, strict=True))
            for kind, ours in (("cold", cold), ("without_lite", without_lite))
        }
        measures += [
            measure("KernelBench's evaluation of the same, slowest", max(theirs), "s"),
            measure("KernelBench's time over ours, cold, smallest", ratios["cold"], "x", ">=", 10),
            measure("KernelBench's time over ours, lite headers off, smallest", ratios["without_lite"], "x", ">=", 2),
        ]
    return measures


def main() -> None:
    """Measure, write the JSON after each part, and a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=sorted(LANGUAGE))
    parser.add_argument("--kernelbench", type=Path, metavar="CHECKOUT", help="KernelBench's checkout, to run it too")
    parser.add_argument("--at-once", type=int, default=32, metavar="N", help="different candidates at once (0: none)")
    parser.add_argument("--out", type=Path, required=True, help="the JSON to write")
    parser.add_argument("--commit", required=True, help="of the code that is measured")
    arguments = parser.parse_args()
    settings = EvaluationSettings.on(arguments.device)
    report = building_header(arguments.commit)
    with tempfile.TemporaryDirectory(prefix="evaluate-latency-") as name:
        scratch = Path(name)
        samples: Json = {"alone": {seed: alone(settings, seed, scratch) for seed in SEEDS}}
        report |= {"samples": samples, "measures": measures_of(samples)}
        write(report, arguments.out)
        if arguments.kernelbench:

            def theirs(seed: str) -> Json:
                return by_kernelbench(arguments.kernelbench, seed, arguments.device, scratch)

            with ThreadPoolExecutor(len(SEEDS)) as pool:
                samples["kernelbench"] = dict(zip(SEEDS, pool.map(theirs, SEEDS), strict=True))
            report["measures"] = measures_of(samples)
            write(report, arguments.out)
        if arguments.at_once:
            samples["at_once"] = at_once(settings, arguments.at_once, scratch)
    report["measures"] = measures_of(samples)
    write(report, arguments.out)


if __name__ == "__main__":
    main()

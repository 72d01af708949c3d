"""How long it takes from a candidate's sources to a loaded module, on a machine with a GPU.

    python benchmarks/build_latency.py --commit "$(git rev-parse --short HEAD)" --out FILE.json

Builds the candidates of tests/data with the lite headers and with torch's own, alone and many at once, each into an
empty cache; then compares what the two do, their calls' overhead and their kernels' time.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import torch  # noqa: E402
from common import Json, building_header, measure, write  # noqa: E402
from cuda_candidates import NAMES, REFUSED, STOCK_ONLY, Candidate, load, read_candidate, without_lite  # noqa: E402
from same_outcome import assert_same, outcome_of  # noqa: E402

from evaluation.building import Builder, BuildRequest  # noqa: E402
from evaluation.building.shim import BuildFailed  # noqa: E402
from evaluation.settings import LimitSettings  # noqa: E402

SEEDS = ("cuda_mean_over_ranks", "cuda_gather_linear")
AT_ONCE = 16
STOCK_AT_ONCE = 8
CALLS, BATCHES = 200, 15


def new_builder() -> Builder:
    """With an empty cache."""
    return Builder(Path(tempfile.mkdtemp(prefix="build-latency-")), LimitSettings())


def timed_load(builder: Builder, request: BuildRequest) -> tuple[Json, ModuleType | None]:
    """Seconds to build and to import, and what built it."""
    start = time.perf_counter()
    try:
        module, reply = load(builder, request)
    except BuildFailed:
        return {"ok": False, "tier": None, "total_s": time.perf_counter() - start}, None
    total_s = time.perf_counter() - start
    sample = {"ok": True, "tier": reply.tier, "total_s": total_s, "build_s": reply.wall_s, "cached": reply.cached}
    return sample, module


def renamed(request: BuildRequest, number: int) -> BuildRequest:
    """The same program under a name of its own: a build of its own."""
    return dataclasses.replace(request, name=f"{request.name}_{number}")


def all_at_once(builder: Builder, requests: Iterable[BuildRequest]) -> Json:
    """Build all, each from a thread of its own."""
    listed = list(requests)
    start = time.perf_counter()
    with ThreadPoolExecutor(max_workers=len(listed)) as pool:
        replies = list(pool.map(builder.build, listed))
    wall_s = time.perf_counter() - start
    return {"wall_s": wall_s, "each_s": [reply.wall_s for reply in replies], "tiers": [reply.tier for reply in replies]}


def compared(candidate: Candidate, lite: ModuleType, stock: ModuleType) -> Json:
    """Whether all calls do the same; microseconds of the first call, on the CPU and on the GPU, for both."""
    differing = []
    for number, (function, _) in enumerate(candidate.calls()):
        outcomes = [outcome_of(getattr(module, function), candidate.calls()[number][1]) for module in (lite, stock)]
        torch.cuda.synchronize()
        try:
            assert_same(*outcomes)
        except AssertionError:
            differing.append(f"{function}, call {number}: {str(outcomes)[:400]}")
    function, arguments = candidate.calls()[0]
    calls = {"lite": getattr(lite, function), "stock": getattr(stock, function)}
    cpu_us: dict[str, list[float]] = {"lite": [], "stock": []}
    gpu_us: dict[str, list[float]] = {"lite": [], "stock": []}
    for _ in range(BATCHES):
        for tier, call in calls.items():
            cpu, gpu = _batch_us(lambda call=call: call(*arguments))
            cpu_us[tier].append(cpu)
            gpu_us[tier].append(gpu)
    return {"calls": len(candidate.calls()), "differing": differing, "cpu_us": cpu_us, "gpu_us": gpu_us}


def _batch_us(call: Callable[[], Any]) -> tuple[float, float]:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    began = time.perf_counter()
    for _ in range(CALLS):
        call()
    cpu_s = time.perf_counter() - began
    end.record()
    torch.cuda.synchronize()
    return 1e6 * cpu_s / CALLS, 1e3 * start.elapsed_time(end) / CALLS


def phases(repeats: int) -> Iterator[Json]:
    """The raw figures so far, after each phase: a run that is stopped leaves what it had."""
    candidates = {name: read_candidate(name) for name in NAMES}
    lite_names = [name for name in NAMES if name not in (REFUSED, *STOCK_ONLY)]
    torch.zeros(1).cuda()
    samples: Json = {"first_build": timed_load(new_builder(), candidates[SEEDS[0]].request)[0], "lite_alone": {}}
    modules: dict[str, ModuleType | None] = {}
    for name in [*SEEDS * (repeats - 1), *lite_names, REFUSED]:
        sample, modules[name] = timed_load(new_builder(), candidates[name].request)
        samples["lite_alone"].setdefault(name, []).append(sample)
    yield samples
    for title, names in (("lite_seeds_at_once", SEEDS), ("lite_at_once", lite_names)):
        requests = [renamed(candidates[names[i % len(names)]].request, i) for i in range(AT_ONCE)]
        samples[title] = all_at_once(new_builder(), requests)
    yield samples
    samples["stock_alone"] = {SEEDS[0]: timed_load(new_builder(), without_lite(candidates[SEEDS[0]].request))[0]}
    yield samples
    stock = new_builder()
    samples["stock_at_once"], samples["cached"], samples["compared"] = [], [], {}
    # The seed kernels come first; the rest in groups that leave each compiler a core.
    ordered = [*SEEDS, *(name for name in lite_names if name not in SEEDS)]
    for group in (ordered[i : i + STOCK_AT_ONCE] for i in range(0, len(ordered), STOCK_AT_ONCE)):
        requests = [without_lite(candidates[name].request) for name in group]
        samples["stock_at_once"].append({"names": group} | all_at_once(stock, requests))
        for name, request in zip(group, requests, strict=True):
            cached, own = timed_load(stock, request)
            samples["cached"].append(cached)
            module = modules[name]
            if module is not None and own is not None:
                samples["compared"][name] = compared(candidates[name], module, own)
        yield samples


def measures_of(samples: Json) -> list[Json]:
    """The figures that count, each with the bar that it is held to."""
    alone = samples["lite_alone"]
    pairs = samples["compared"].values()

    def median_ratio(kind: str) -> list[float]:
        return [statistics.median(one[kind]["lite"]) / statistics.median(one[kind]["stock"]) for one in pairs]

    overhead = [
        statistics.median(samples["compared"][name]["cpu_us"]["lite"])
        - statistics.median(samples["compared"][name]["cpu_us"]["stock"])
        for name in SEEDS
    ]
    seeds = [sample["total_s"] for name in SEEDS for sample in alone[name]]
    lite_tier = [one["tier"] == "lite" for name, many in alone.items() if name != REFUSED for one in many]
    rows = [
        ("seed kernels, source to loaded module, lite, alone, median", statistics.median(seeds), "s", "<=", 4.0),
        ("seed kernels, source to loaded module, lite, alone, slowest", max(seeds), "s", "<=", 5.0),
        ("slowest candidate, lite, alone", max(s["total_s"] for many in alone.values() for s in many), "s", "<=", 15.0),
        ("share of lite candidates that the lite headers built", sum(lite_tier) / len(lite_tier), "", ">=", 1.0),
        ("a compile error, source to message", alone[REFUSED][0]["total_s"], "s", "<=", 5.0),
        (f"{AT_ONCE} seed kernels at once, lite, wall", samples["lite_seeds_at_once"]["wall_s"], "s", "<=", 12.0),
        (
            "seed kernel, source to loaded module, stock, alone",
            samples["stock_alone"][SEEDS[0]]["total_s"],
            "s",
            None,
            None,
        ),
        ("found in the cache, source to loaded module", max(s["total_s"] for s in samples["cached"]), "s", "<=", 0.1),
        ("calls compared with torch's own headers", sum(one["calls"] for one in pairs), "", ">=", 1),
        ("calls that differ", sum(len(one["differing"]) for one in pairs), "", "<=", 0),
        ("seed kernels, CPU time of a call, lite minus stock", max(overhead), "us", "<=", 0.5),
        ("GPU time of a stream of calls, lite over stock, largest", max(median_ratio("gpu_us")), "", "<=", 1.05),
    ]
    return [measure(*row) for row in rows]


def main() -> None:
    """Measure, write the JSON and a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the JSON to write")
    parser.add_argument("--commit", required=True, help="of the code that is measured")
    parser.add_argument("--repeats", type=int, default=3, help="builds of each seed kernel")
    arguments = parser.parse_args()
    began = time.monotonic()
    report = building_header(arguments.commit)
    for samples in phases(arguments.repeats):
        report["samples"] = samples
        write(report, arguments.out)
        sys.stdout.write(f"{time.monotonic() - began:6.1f} s  {', '.join(samples)}\n")
    report["measures"] = measures_of(report["samples"])
    write(report, arguments.out)


if __name__ == "__main__":
    main()

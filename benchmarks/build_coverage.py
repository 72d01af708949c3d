"""Which share of realistic candidates the lite headers take, and how long an author waits for a typical mistake.

    python benchmarks/build_coverage.py --commit "$(git rev-parse --short HEAD)" --out FILE.json

Compiles the corpus of tests/data with the lite headers. C++ candidates are then called, and what they do is compared
with the same sources under torch's own headers. Without a CUDA build of torch, CUDA candidates are compiled but not
linked, and every function that the binding calls must be one that the kernels' unit defines. On a machine with a GPU,
tests/evaluation/building/test_gpu_equivalence.py compares all of them under both sets of headers.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from common import Json, building_header, measure, write  # noqa: E402
from cuda_candidates import CPP_NAMES, CPP_STOCK_ONLY, NAMES, REFUSED, load, merged, read_candidate, without_lite  # noqa: E402
from mistakes import SAYS, request_of  # noqa: E402
from same_outcome import assert_same, outcome_of  # noqa: E402

from evaluation.building import Builder, BuildRequest  # noqa: E402
from evaluation.building.compile import Workshop  # noqa: E402
from evaluation.building.places import Places, places_here  # noqa: E402
from evaluation.building.sources import LITE, lite_applies, plan  # noqa: E402
from evaluation.building.toolchain import Toolchain  # noqa: E402
from evaluation.settings import LimitSettings  # noqa: E402

LIBRARY_HEADERS = ("cublas_v2.h", "curand_kernel.h")
"""Headers of CUDA's libraries, which not every machine with a compiler has."""


def compiled(workshop: Workshop, request: BuildRequest) -> Json:
    """What the lite headers made of one candidate, up to the link."""
    if not lite_applies(request):
        return {"lite": False, "why": "binds itself"}
    include = (workshop.toolchain.cuda_folder or Path("/usr/local/cuda")) / "include"
    absent = [name for name in LIBRARY_HEADERS if f"<{name}>" in "".join(request.cuda_sources)]
    absent = [name for name in absent if not (include / name).exists()]
    if absent:
        return {"lite": False, "why": f"{absent[0]} is not on this machine", "absent_here": True}
    start = time.perf_counter()
    with workshop.bench(plan(request, LITE, workshop.toolchain, "90a", workshop.scratch)) as bench:
        done = bench.compile_units()
        missing = [] if not all(one.ok for one in done) else unresolved(bench.folder, request)
    wall_s = time.perf_counter() - start
    said = next((one.output for one in done if not one.ok), "")
    why = next((line for line in said.splitlines() if "error" in line), ", ".join(missing))
    return {"lite": not why, "why": why, "wall_s": wall_s}


def unresolved(folder: Path, request: BuildRequest) -> list[str]:
    """Bound functions that the binding calls and no unit defines, mangled: parameters count."""
    symbols = [
        line.split()[-2:]
        for unit in folder.glob("*.o")
        for line in subprocess.run(["nm", unit], capture_output=True, text=True, check=True).stdout.splitlines()
    ]
    defined = {name for kind, name in symbols if kind in "TWt"}
    bound = [f"{len(function)}{function}" for function in request.functions or {}]
    return [name for kind, name in symbols if kind == "U" and name not in defined and any(one in name for one in bound)]


def equal_calls(builder: Builder) -> Json:
    """All C++ candidates as one module under both sets of headers: calls made and calls that differ."""
    request, calls = merged([name for name in CPP_NAMES if name not in CPP_STOCK_ONLY])
    lite, lite_reply = load(builder, request)
    stock, stock_reply = load(builder, without_lite(request))
    differing = []
    for number, (function, _) in enumerate(calls()):
        outcomes = [outcome_of(getattr(module, function), calls()[number][1]) for module in (lite, stock)]
        try:
            assert_same(*outcomes)
        except AssertionError:
            differing.append(f"{function}, call {number}: {str(outcomes)[:300]}")
    if (lite_reply.tier, stock_reply.tier) != ("lite", "stock"):
        raise RuntimeError(f"built by {lite_reply.tier} and {stock_reply.tier} headers: nothing is compared")
    build_s = {reply.tier: reply.wall_s for reply in (lite_reply, stock_reply)}
    return {"calls": len(calls()), "differing": differing, "build_s": build_s}


def mistakes(builder: Builder) -> Json:
    """Seconds to the message for each typical mistake, and whether it is the expected one."""
    builder.build(request_of("cpp_type"))  # makes what is made once for a machine
    out = {}
    for name, says in SAYS.items():
        reply = builder.build(replace(request_of(name), name="measured"))
        told = says in reply.diagnostics and not reply.ok
        out[name] = {"wall_s": reply.wall_s, "tier": reply.tier, "as_expected": told}
    return out


def mistakes_of_stock(builder: Builder) -> Json:
    """Whether torch's own headers say the same of each mistake; a symbol that is missing fails only at the import."""

    def told(name: str) -> bool:
        reply = builder.build(request_of(name, allow_lite=False))
        return reply.ok if name == "cpp_undefined" else SAYS[name] in reply.diagnostics

    with ThreadPoolExecutor(max_workers=len(SAYS)) as pool:
        return dict(zip(SAYS, pool.map(told, SAYS), strict=True))


def measures_of(samples: Json) -> list[Json]:
    """The figures that count, each with its bar."""
    rows = [row for row in samples["corpus"].values() if not row.get("absent_here")]
    seconds = sorted(row["wall_s"] for row in samples["mistakes"].values())
    own = [row for row in samples["mistakes"].values() if row["tier"] == LITE]
    compared = samples.get("mistakes_of_stock", {})
    stock = [
        measure(
            "mistakes of which torch's headers say something else", list(compared.values()).count(False), "", "<=", 0
        )
    ]
    return [
        *(stock if compared else []),
        measure("candidates", len(samples["corpus"]), "", ">=", 40),
        measure(
            "share of those whose headers are here that the lite headers take",
            sum(r["lite"] for r in rows) / len(rows),
            "",
            ">=",
            0.8,
        ),
        measure("calls compared with torch's own headers", samples["equal"]["calls"], "", ">=", 1),
        measure("calls that differ", len(samples["equal"]["differing"]), "", "<=", 0),
        measure("a mistake, source to message, slowest", seconds[-1], "s", "<=", 5),
        measure("a mistake, source to message, median", seconds[len(seconds) // 2], "s"),
        measure("share of mistakes told without torch's headers", len(own) / len(seconds), "", ">=", 1),
        measure("mistakes told wrongly", sum(not r["as_expected"] for r in samples["mistakes"].values()), "", "<=", 0),
    ]


def main() -> None:
    """Measure, write the JSON and a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the JSON to write")
    parser.add_argument("--commit", required=True, help="of the code that is measured")
    parser.add_argument("--stock", action="store_true", help="ask torch's own headers about the mistakes too")
    arguments = parser.parse_args()
    report = building_header(arguments.commit)
    with tempfile.TemporaryDirectory(prefix="build-coverage-") as name:
        scratch = Path(name)
        places = Places(scratch, places_here())
        workshop = Workshop(toolchain=Toolchain.find(), limits=LimitSettings(), scratch=scratch, places=places)
        builder = Builder(scratch / "cache", LimitSettings(build_s=600))
        names = [candidate for candidate in [*NAMES, *CPP_NAMES] if candidate != REFUSED]
        requests = [read_candidate(name).request for name in names]
        with ThreadPoolExecutor(max_workers=places_here()) as pool:
            rows = pool.map(lambda request: compiled(workshop, request), requests)
        samples: Json = {"corpus": dict(zip(names, rows, strict=True))}
        report["samples"] = samples
        write(report, arguments.out)
        samples["mistakes"] = mistakes(builder)
        samples["equal"] = equal_calls(builder)
        if arguments.stock:
            samples["mistakes_of_stock"] = mistakes_of_stock(builder)
    report["measures"] = measures_of(samples)
    write(report, arguments.out)


if __name__ == "__main__":
    main()

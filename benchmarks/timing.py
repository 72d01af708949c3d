"""Are device times right, repeatable and fine enough? Equal arms, a known slowdown, other clocks, and what it costs.

    python benchmarks/timing.py --commit "$(git rev-parse --short HEAD)" --out benchmarks/results/timing.json \\
        [--only aa detection handover agreement kernelbench] [--budget-s aa=160] [--kernelbench CHECKOUT]

`aa`: reference and candidate are the same text. `detection`: the candidate does 3 % more of the same work. `handover`:
seconds to a worker, and of evaluations whose build is cached. `agreement`: one kernel at many sizes by our clock, by
CUPTI and by ncu, each in processes of their own. `kernelbench`: the same kernels by KernelBench's evaluation; CHECKOUT
is `git archive HEAD src | tar -x -C CHECKOUT` of its repository. The JSON is written after each case. Needs a GPU.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from common import Json, building_header, show  # noqa: E402
from timing_cases import Case, equal_cases, mean8_cases, slower_cases  # noqa: E402
from timing_figures import NCU_FROM_US, REPEATS, as_text, measures_of, rounded  # noqa: E402
from timing_others import KernelBench, Profilers  # noqa: E402

from evaluation.judge import Judge  # noqa: E402
from evaluation.serialize import to_plain  # noqa: E402
from evaluation.settings import EvaluationSettings  # noqa: E402
from evaluation.verdict import Evaluation, Stage, Timing  # noqa: E402

BUDGETS_S = {"aa": 170.0, "detection": 90.0, "handover": 25.0, "agreement": 80.0, "kernelbench": 110.0}
"""Seconds of each part, in the order in which they run. When they are spent, cases are left out."""
SPAWNS = 20
PROFILERS_S = 30.0
"""Of the agreement part, that CUPTI and ncu need."""
MIN_REPEATS = 2


@dataclass(slots=True)
class Bench:
    """The report, and what the parts work with."""

    judge: Judge
    scratch: Path
    report: Json
    out: Path
    repeats: int

    def keep(self, part: str, name: str, row: Json) -> None:
        """Note a case's samples, and write the JSON."""
        self.report["samples"].setdefault(part, {})[name] = rounded(row)
        self.save()

    def save(self) -> None:
        """Write the JSON with the figures of what there is; a reader, or an end by force, never sees half of it."""
        self.report["measures"] = measures_of(self.report["samples"])
        unfinished = self.out.with_suffix(".part")
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(as_text(self.report))
        unfinished.replace(self.out)

    @contextmanager
    def guarded(self, part: str, name: str) -> Iterator[None]:
        """What goes wrong inside is a failed case: device time is scarce, and other cases must not be lost to it."""
        try:
            yield
        except Exception:  # noqa: BLE001 - whatever it is, it is written down and counted
            say(f"{part}: {name}: FAILED: {traceback.format_exc(limit=-1).strip()}")
            self.keep(part, name, {"failed": traceback.format_exc()})

    def leave_out(self, part: str, name: str) -> None:
        """A case that its part has no seconds for is missing, which is not to go unseen."""
        say(f"{part}: {name}: left out, its part's seconds are spent")
        self.keep(part, name, {"failed": "left out: its part's seconds were spent"})

    def evaluate(self, case: Case) -> Evaluation:
        """The whole evaluation. Raises RuntimeError when the candidate is not called correct."""
        evaluation = self.judge.evaluate(case.problem(self.scratch), case.solution, Stage.TIMING)
        if evaluation.timing is None:
            raise RuntimeError(f"{evaluation.status}: {evaluation.message}")
        return evaluation


def say(line: str) -> None:
    """One finding."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def repeated(bench: Bench, case: Case, budget_s: float) -> list[Json]:
    """Timings of one case: as many as are asked for, or as fit the seconds, but two at least."""
    problem = case.problem(bench.scratch)
    started = time.monotonic()
    timings: list[Timing] = bench.judge.time_again(problem, case.solution, MIN_REPEATS)
    took_s = time.monotonic() - started
    each_s = max(timing.wall_s for timing in timings)
    load_s = took_s - sum(timing.wall_s for timing in timings)
    fits = math.floor((budget_s - took_s - load_s) / each_s)
    more = min(bench.repeats - MIN_REPEATS, fits)
    if more > 0:
        timings += bench.judge.time_again(problem, case.solution, more)
    return [to_plain(timing) for timing in timings]


def timed_part(part: str, cases: list[Case]) -> Callable[[Bench, float], None]:
    """A part that repeats the timing of each case; what one case leaves of its seconds is for those after it."""

    def run(bench: Bench, budget_s: float) -> None:
        deadline = time.monotonic() + budget_s
        for index, case in enumerate(cases):
            with bench.guarded(part, case.name):
                rows = repeated(bench, case, (deadline - time.monotonic()) / (len(cases) - index))
                bench.keep(part, case.name, {"within": case.within, "repeats": rows})
                ratios = sorted(row["speedup"] for row in rows)
                say(
                    f"{part}: {case.name}: {rows[0]['reference']['median_us']:.2f} us, {len(rows)} repeats, ratio "
                    f"{ratios[0]:.4f} to {ratios[-1]:.4f}, {sum(row['speedup_high'] < 1 for row in rows)} called slower"
                )

    return run


def handover(bench: Bench, budget_s: float) -> None:
    """Seconds from asking for a worker to its answer, and of evaluations that find their build in the cache."""
    deadline = time.monotonic() + budget_s
    with bench.guarded("handover", "worker"):
        spawn_s = []
        workplace = bench.judge.workplace
        for _ in range(SPAWNS):
            workplace.between()
            with workplace.held_for_timing():  # when no worker is being started any more
                started = time.perf_counter()
                arm = workplace.arm(bench.judge.builder.build, is_reference=False)
                arm.load("class ModelNew: pass\n", "ModelNew")
                spawn_s.append(time.perf_counter() - started)
            arm.close()
        bench.keep("handover", "worker", {"spawn_s": spawn_s})
        say(f"handover: worker: {min(spawn_s):.3f} to {max(spawn_s):.3f} s")
    for case in [case for case in mean8_cases() if case.about_us in (2, 10, 140, 1000)]:
        if time.monotonic() > deadline:
            bench.leave_out("handover", case.name)
            continue
        with bench.guarded("handover", case.name):
            bench.evaluate(case)
            started = time.perf_counter()
            evaluation = bench.evaluate(case)
            total_s = time.perf_counter() - started
            cached = [build.cached for build in evaluation.builds]
            row = {"total_s": total_s, "wall_s": evaluation.wall_s, "builds_cached": cached}
            bench.keep("handover", case.name, row | {"status": evaluation.status.value})
            say(f"handover: {case.name}: {total_s:.2f} s, of which {evaluation.wall_s}")


def agreement(bench: Bench, budget_s: float) -> None:
    """One kernel at all sizes by our clock, by CUPTI and by ncu."""
    deadline = time.monotonic() + budget_s - PROFILERS_S
    cases, rows = mean8_cases(), dict[str, Json]()
    for case in cases:
        if time.monotonic() > deadline:
            bench.leave_out("agreement", case.name)
            continue
        with bench.guarded("agreement", case.name):
            evaluation = bench.evaluate(case)
            rows[case.name] = {"status": evaluation.status.value, "timing": to_plain(evaluation.timing)}
            bench.keep("agreement", case.name, rows[case.name])
    cases = [case for case in cases if case.name in rows]
    with bench.guarded("agreement", "CUPTI and ncu"):
        others = Profilers(bench.scratch)
        long = [case for case in cases if case.about_us >= NCU_FROM_US]
        for key, chosen, durations in (("cupti_us", cases, others.cupti), ("ncu_us", long, others.ncu)):
            with bench.guarded("agreement", key):
                for case, found_us in zip(chosen, durations(chosen), strict=True):
                    rows[case.name][key] = found_us
                    bench.keep("agreement", case.name, rows[case.name])
    for case in cases:
        say(f"agreement: {case.name}: {_beside(rows[case.name])}")


def _beside(row: Json) -> str:
    ours = row["timing"]["candidate"]
    texts = [f"ours {ours['median_us']:.3f} us [{ours['low_us']:.3f}, {ours['high_us']:.3f}]"]
    for key in ("cupti_us", "ncu_us"):
        if key in row:
            texts.append(f"{key.removesuffix('_us')} {sorted(row[key])[len(row[key]) // 2]:.3f} us")
    return ", ".join(texts)


def kernelbench_part(theirs: KernelBench) -> Callable[[Bench, float], None]:
    """The same kernels by KernelBench's own evaluation."""

    def run(bench: Bench, budget_s: float) -> None:
        with bench.guarded("kernelbench", "evaluation"):
            for name, row in theirs.evaluated(mean8_cases(), budget_s):
                with bench.guarded("kernelbench", name):
                    if not row["runtime_stats"]:
                        raise RuntimeError(f"KernelBench did not time it: {row}")
                    bench.keep("kernelbench", name, row)
                    stats = row["runtime_stats"]
                    say(f"kernelbench: {name}: {stats['mean'] * 1e3:.3f} us, std {stats['std'] * 1e3:.3f} us")

    return run


def parsed() -> argparse.Namespace:
    """The command line, with the seconds of each part as a dict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(BUDGETS_S), default=list(BUDGETS_S), metavar="PART")
    parser.add_argument("--budget-s", nargs="+", default=[], metavar="PART=S", help=f"default: {BUDGETS_S}")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="of each timing in aa and detection")
    parser.add_argument("--timing-budget-s", type=float, help="evaluation.timing.budget_s, in place of the default")
    parser.add_argument("--kernelbench", type=Path, metavar="CHECKOUT", help="without it that part is left out")
    parser.add_argument("--out", type=Path, required=True, help="the JSON to write")
    parser.add_argument("--commit", required=True, help="of the code that is measured")
    arguments = parser.parse_args()
    given = [word.partition("=") for word in arguments.budget_s]
    try:
        arguments.budget_s = BUDGETS_S | {part: float(seconds) for part, _, seconds in given}
    except ValueError:
        parser.error("--budget-s takes PART=SECONDS, as in aa=120")
    unknown = set(arguments.budget_s) - set(BUDGETS_S)
    if unknown:
        parser.error(f"--budget-s names {', '.join(sorted(unknown))}; the parts are {', '.join(BUDGETS_S)}")
    return arguments


def parts(only: list[str], theirs: KernelBench | None) -> dict[str, Callable[[Bench, float], None]]:
    """Those that are asked for, in the order in which they run."""
    every: dict[str, Callable[[Bench, float], None]] = {
        "aa": timed_part("aa", equal_cases()),
        "detection": timed_part("detection", slower_cases()),
        "handover": handover,
        "agreement": agreement,
    }
    if theirs is not None:
        every["kernelbench"] = kernelbench_part(theirs)
    return {part: run for part, run in every.items() if part in only}


def main() -> None:
    """Run the parts, writing the JSON as they proceed, and show a table. Exits with 1 when a case has failed."""
    arguments = parsed()
    settings = EvaluationSettings.on("cuda")
    if arguments.timing_budget_s is not None:
        settings.timing.budget_s = arguments.timing_budget_s
    report = building_header(arguments.commit)
    report["settings"] = to_plain(settings)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="timing-")))
        theirs = None
        if arguments.kernelbench and "kernelbench" in arguments.only:
            theirs = stack.enter_context(closing(KernelBench(arguments.kernelbench, scratch)))
        judge = stack.enter_context(Judge(settings, scratch / "cache"))
        bench = Bench(judge, scratch, report, arguments.out, arguments.repeats)
        for part, run in parts(arguments.only, theirs).items():
            if part == "agreement" and theirs is not None:
                theirs.build_ahead(mean8_cases()[0])
            started = time.monotonic()
            run(bench, arguments.budget_s[part])
            report.setdefault("part_s", {})[part] = round(time.monotonic() - started, 1)
            say(f"{part}: {report['part_s'][part]} s")
        bench.save()
    show(report)
    failed = any("failed" in row for rows in report["samples"].values() for row in rows.values())
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

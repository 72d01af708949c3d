"""Are exploits caught, and are honest candidates never refused? Repeats of both corpora of tests/data, on this machine.

    python benchmarks/trust.py --commit "$(git rev-parse --short HEAD)" --out benchmarks/results/trust.json

Every repeat has inputs, weights and processes of its own. The JSON names what came of each entry.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from common import Json, building_header, described_commit, measure, write  # noqa: E402
from corpus import Entry, entries, evaluate, settings  # noqa: E402

from evaluation import environment  # noqa: E402
from evaluation.judge import Judge  # noqa: E402
from evaluation.settings import TimingSettings  # noqa: E402

KEY = {"KERNELSWEEP_TEST_API_KEY": "sk-not-a-key"}
"""What the candidate that looks for keys must not find."""


def outcome(judge: Judge, entry: Entry) -> Json:
    """One repeat of one entry."""
    began = time.monotonic()
    evaluation = evaluate(judge, entry)
    found: Json = {"status": evaluation.status.value, "wall_s": round(time.monotonic() - began, 3)}
    if evaluation.timing is not None:
        timing = evaluation.timing
        found["speedup"] = [round(x, 4) for x in (timing.speedup_low, timing.speedup, timing.speedup_high)]
        found["harness_us"] = round(timing.harness_us, 2)
        found["candidate_us"] = round(timing.candidate.median_us, 2)
    complaint = entry.complaint(evaluation)
    return found if complaint is None else found | {"complaint": complaint}


def run(judge: Judge, corpus: str, repeats: int) -> dict[str, Json]:
    """All entries of a corpus that need no GPU, by id."""
    results: dict[str, Json] = {}
    for entry in [entry for entry in entries(corpus) if entry.needs == "cpu"]:
        runs = [outcome(judge, entry) for _ in range(repeats)]
        results[entry.id] = {"title": entry.title, "source": entry.source, "runs": runs}
        said = ", ".join(f"{status} {count}" for status, count in Counter(one["status"] for one in runs).items())
        wrong = [one["complaint"] for one in runs if "complaint" in one]
        sys.stdout.write(f"{entry.id:6} {said} {'; '.join(wrong[:1])}\n")
        sys.stdout.flush()
    return results


def measures_of(samples: Json) -> list[Json]:
    """The figures that are quoted, each with the bar that it is held to."""
    exploits, honest = samples["exploits"], samples["honest"]
    tries = [one for found in exploits.values() for one in found["runs"]]
    fair = [one for found in honest.values() for one in found["runs"]]
    rows = [
        ("exploits", len(exploits), ">=", 50),
        ("exploits, runs", len(tries), None, None),
        ("exploits, runs that were not caught", sum("complaint" in one for one in tries), "<=", 0),
        ("honest candidates", len(honest), ">=", 25),
        ("honest candidates, runs", len(fair), None, None),
        ("honest candidates, runs that were refused", sum("complaint" in one for one in fair), "<=", 0),
    ]
    return [measure(name, value, "", sign, bar) for name, value, sign, bar in rows]


def described(commit: str, judge: Judge) -> Json:
    """The machine, its sandbox and the versions."""
    report = building_header(commit)
    seen = environment.describe("cpu", judge.settings.cpu_threads, judge.zygote.level)
    report["machine"]["sandbox"] = seen.sandbox
    report["dirty"] = described_commit().endswith("-dirty")
    return report


def main() -> None:
    """Run both corpora, write the JSON and a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the JSON to write")
    parser.add_argument("--commit", required=True, help="of the code that is measured")
    parser.add_argument("--exploit-repeats", type=int, default=3)
    parser.add_argument("--honest-repeats", type=int, default=20)
    parser.add_argument("--budget-s", type=float, default=0.3, help="seconds of measuring per timed evaluation")
    arguments = parser.parse_args()
    os.environ.update(KEY)
    began = time.monotonic()
    timing = TimingSettings(budget_s=arguments.budget_s, process_pairs=2, min_blocks=8, stable_interval=1e6)
    with tempfile.TemporaryDirectory() as cache, Judge(settings(timing), Path(cache)) as judge:
        report = described(arguments.commit, judge)
        report["samples"] = {
            "exploits": run(judge, "exploits", arguments.exploit_repeats),
            "honest": run(judge, "honest", arguments.honest_repeats),
        }
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    report["wall_s"] = round(time.monotonic() - began, 1)
    report["cpu_s"] = round(sum(one.ru_utime + one.ru_stime for one in usage), 1)
    report["measures"] = measures_of(report["samples"])
    write(report, arguments.out)


if __name__ == "__main__":
    main()

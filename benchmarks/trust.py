"""Are exploits caught, and are honest candidates never refused? Repeats of both corpora of tests/data, on this machine.

    python benchmarks/trust.py --commit "$(git rev-parse --short HEAD)" --out benchmarks/results/trust.json
    python benchmarks/trust.py --device cuda --commit ... --out benchmarks/results/trust_gpu.json --budget-s 500

Every repeat has inputs, weights and processes of its own. The JSON names what came of each entry, and is up to date
after each. On a GPU exploits are tried once, and of an honest candidate's repeats the first is timed, the others are
not. `--jobs N` shares the entries out to N judges, which take turns on the device.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from common import Json, building_header, described_commit, measure, write  # noqa: E402
from corpus import Entry, entries, evaluate, settings  # noqa: E402
from corpus_builds import build_all  # noqa: E402

from evaluation import environment  # noqa: E402
from evaluation.judge import Judge  # noqa: E402
from evaluation.settings import EvaluationSettings, TimingSettings  # noqa: E402
from evaluation.verdict import Stage  # noqa: E402

CORPORA = ("exploits", "honest")
KEY = {"KERNELSWEEP_TEST_API_KEY": "sk-not-a-key"}
"""What the candidate that looks for keys must not find."""
OURS = "EVALUATOR_ERROR"
"""The status of a repeat in which the evaluator failed; says nothing about the candidate."""


@dataclass(slots=True)
class Bench:
    """One judge for all entries, made anew after it has failed, and what has come of the entries so far."""

    settings: EvaluationSettings
    cache: Path
    report: Json
    out: Path
    deadline: float
    """By time.monotonic: no entry is begun after it."""
    not_run: list[str] = field(default_factory=list)
    _judge: Judge | None = None

    def run(self, corpus: str, chosen: list[Entry], repeats: int, stages: list[Stage | None]) -> None:
        """Repeat these entries. `stages` are those of the first repeat and of the later ones."""
        results: dict[str, Json] = self.report["samples"].setdefault(corpus, {})
        for entry in chosen:
            if time.monotonic() > self.deadline:
                self.not_run.append(entry.id)
                continue
            runs = [self._outcome(entry, stages[min(count, 1)]) for count in range(repeats)]
            results[entry.id] = {"title": entry.title, "source": entry.source, "runs": runs}
            said = ", ".join(f"{status} {count}" for status, count in Counter(one["status"] for one in runs).items())
            wrong = [one[key] for one in runs for key in ("complaint", "error") if key in one]
            wall_s = sum(one["wall_s"] for one in runs)
            sys.stdout.write(f"{entry.id:6} {wall_s:6.1f} s  {said} {'; '.join(wrong[:1])}\n")
            sys.stdout.flush()
            self.keep()

    def keep(self) -> None:
        """Write the JSON with what there is."""
        self.report["not_run"] = self.not_run
        self.report["measures"] = measures_of(self.report["samples"])
        begun = self.out.with_suffix(".part")
        begun.parent.mkdir(parents=True, exist_ok=True)
        begun.write_text(json.dumps(self.report, indent=1) + "\n")
        begun.replace(self.out)

    def close(self) -> None:
        """End the judge."""
        if self._judge is not None:
            self._judge.close()
            self._judge = None

    def judge(self) -> Judge:
        """The one that judges now."""
        if self._judge is None:
            self._judge = Judge(self.settings, self.cache)
        return self._judge

    def _outcome(self, entry: Entry, stage: Stage | None) -> Json:
        """One repeat of one entry."""
        began = time.monotonic()
        try:
            found = described_outcome(self.judge(), entry, stage)
        except Exception as error:  # noqa: BLE001  # a fault of ours, whatever it is; the others are still to come
            found = {"status": OURS, "error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
            self.close()
        return found | {"wall_s": round(time.monotonic() - began, 3)}


def described_outcome(judge: Judge, entry: Entry, stage: Stage | None) -> Json:
    """What came of one evaluation."""
    evaluation = evaluate(judge, entry, stage)
    found: Json = {"status": evaluation.status.value, "stage": evaluation.stage.value, "message": evaluation.message}
    found["parts_s"] = evaluation.wall_s
    if evaluation.timing is not None:
        timing = evaluation.timing
        found["speedup"] = [round(x, 4) for x in (timing.speedup_low, timing.speedup, timing.speedup_high)]
        if timing.harness_us is not None:
            found["harness_us"] = round(timing.harness_us, 2)
        if timing.attested_us is not None:
            found["attested_us"] = round(timing.attested_us, 2)
        found["candidate_us"] = round(timing.candidate.median_us, 2)
    complaint = entry.complaint(evaluation)
    return found if complaint is None else found | {"complaint": complaint}


def measures_of(samples: Json) -> list[Json]:
    """The figures that are quoted, each with the bar that it is held to."""
    exploits, honest = (samples.get(corpus, {}) for corpus in CORPORA)
    tries = [one for found in exploits.values() for one in found["runs"]]
    fair = [one for found in honest.values() for one in found["runs"]]
    rows = [
        ("exploits", len(exploits), ">=", 50),
        ("exploits, runs", len(tries), None, None),
        ("exploits, runs that were not caught", sum("complaint" in one for one in tries), "<=", 0),
        ("honest candidates", len(honest), ">=", 25),
        ("honest candidates, runs", len(fair), None, None),
        ("honest candidates, runs that were refused", sum("complaint" in one for one in fair), "<=", 0),
        ("runs in which the evaluator failed", sum(one["status"] == OURS for one in tries + fair), "<=", 0),
    ]
    return [measure(name, value, "", sign, bar) for name, value, sign, bar in rows]


def described(commit: str, judge: Judge) -> Json:
    """The machine, its sandbox and the versions."""
    report = building_header(commit)
    seen = environment.describe(judge.settings.device, judge.settings.cpu_threads, judge.zygote.level)
    report["machine"]["sandbox"] = seen.sandbox
    report["device"] = judge.settings.device
    try:
        report["dirty"] = described_commit().endswith("-dirty")
    except (FileNotFoundError, subprocess.CalledProcessError):
        report["dirty"] = None  # a copy without its repository
    return report


def chosen_entries(device: str, only: list[str]) -> dict[str, list[Entry]]:
    """By corpus, in the order of `only` where it names some. Exits with a sentence when it names what there is not."""
    found = {corpus: {entry.id: entry for entry in entries(corpus, device)} for corpus in CORPORA}
    unknown = [name for name in only if not any(name in by_id for by_id in found.values())]
    if unknown:
        sys.exit(f"no entry for {device} is called {', '.join(unknown)}")
    return {corpus: [by_id[name] for name in (only or by_id) if name in by_id] for corpus, by_id in found.items()}


def arguments_of(given: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the JSON to write")
    parser.add_argument("--commit", required=True, help="of the code that is measured")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", default="", help="ids, with commas between them: these alone, in this order")
    parser.add_argument("--exploit-repeats", type=int, help="3 on a CPU, 1 on a GPU unless given")
    parser.add_argument("--honest-repeats", type=int, default=20)
    parser.add_argument("--timing-s", type=float, default=0.3, help="seconds of measuring per timed evaluation")
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="begin no entry after so many seconds")
    parser.add_argument("--cache", type=Path, help="of builds; a new one unless given")
    parser.add_argument("--jobs", type=int, default=1, help="judges at the same time")
    return parser.parse_args(given)


def shared_out(bench: Bench, chosen: dict[str, list[Entry]], tries: int, arguments: argparse.Namespace) -> None:
    """Have as many processes as there are jobs run a part of the entries each, and gather what they found."""
    names = [entry.id for some in chosen.values() for entry in some]
    with tempfile.TemporaryDirectory() as folder:
        begun = []
        for job in range(arguments.jobs):
            left_s = bench.deadline - time.monotonic()
            part = Path(folder) / f"{job}.json"
            options = {
                "out": part, "commit": arguments.commit, "device": arguments.device, "cache": bench.cache,
                "only": ",".join(names[job :: arguments.jobs]), "exploit-repeats": tries,
                "honest-repeats": arguments.honest_repeats, "timing-s": arguments.timing_s, "budget-s": left_s,
            }  # fmt: skip
            order = [sys.executable, __file__, *(f"--{name}={value}" for name, value in options.items())]
            begun.append((part, subprocess.Popen(order)))
        for part, process in begun:
            process.wait()
            found = json.loads(part.read_text())
            for corpus, results in found["samples"].items():
                bench.report["samples"].setdefault(corpus, {}).update(results)
            bench.not_run += found["not_run"]
    bench.keep()


def main() -> None:
    """Run both corpora, write the JSON and a table."""
    arguments = arguments_of()
    os.environ.update(KEY)
    began = time.monotonic()
    on_gpu = arguments.device == "cuda"
    chosen = chosen_entries(arguments.device, [name for name in arguments.only.split(",") if name])
    timing = TimingSettings(budget_s=arguments.timing_s, process_pairs=2, min_blocks=8, stable_interval=1e6)
    with tempfile.TemporaryDirectory() as folder:
        cache = arguments.cache or Path(folder)
        deadline = began + arguments.budget_s
        bench = Bench(settings(timing, arguments.device), cache, {"samples": {}}, arguments.out, deadline)
        try:
            bench.report |= described(arguments.commit, bench.judge()) | {"samples": {}}
            if on_gpu:
                build_all([entry for some in chosen.values() for entry in some], cache)
                bench.report["building_s"] = round(time.monotonic() - began, 1)
            tries = arguments.exploit_repeats or (1 if on_gpu else 3)
            if arguments.jobs > 1:
                bench.close()
                shared_out(bench, chosen, tries, arguments)
            else:
                bench.run("exploits", chosen["exploits"], tries, [None, None])
                stages = [Stage.TIMING, Stage.CORRECTNESS] if on_gpu else [None, None]
                bench.run("honest", chosen["honest"], arguments.honest_repeats, stages)
        finally:
            bench.close()
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    bench.report["wall_s"] = round(time.monotonic() - began, 1)
    bench.report["cpu_s"] = round(sum(one.ru_utime + one.ru_stime for one in usage), 1)
    bench.keep()
    if bench.not_run:
        sys.stdout.write(f"not run for want of time: {','.join(bench.not_run)}\n")
    write(bench.report, arguments.out)


if __name__ == "__main__":
    main()

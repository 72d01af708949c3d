"""The verbs about single files: evaluate one candidate, list the problems."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from evaluation.client import Evaluator
from evaluation.profile.brief import brief
from evaluation.serialize import to_plain
from evaluation.verdict import LAUNCH_BOUND, EndToEnd, Evaluation, Solution, Stage, Status, Timing
from orchestrator.cli.answer import DONE, USAGE, Answer, UsageError
from orchestrator.config.experiment import load_evaluation
from orchestrator.report.page_evaluation import evaluation_page
from orchestrator.report.page_format import (
    DEVICE_TIME,
    END_TO_END,
    duration_interval,
    error,
    seconds,
    speedup_interval,
)
from orchestrator.report.page_timing import COMPILED, attested_words, conditions_rows
from orchestrator.settings import ProblemSettings, open_library
from orchestrator.store.files import write_atomic
from problems.library import read_problem
from problems.problem import Problem


def evaluate(arguments: argparse.Namespace) -> Answer:
    """Judge one candidate; what the verdict is does not change the exit code, unless the problem itself is invalid."""
    settings, library = load_evaluation(arguments.overrides)
    problem = _problem(arguments.problem, library)
    try:
        source = arguments.file.read_text(encoding="utf-8")
    except OSError as fault:
        raise UsageError(f"cannot read {arguments.file}: {fault.strerror}") from fault
    except UnicodeDecodeError as fault:
        raise UsageError(f"{arguments.file} is not UTF-8 text") from fault
    page: Path | None = arguments.page
    if page is not None:
        _check_writable(page)
    stage = Stage.PROFILE if arguments.profile else Stage.TIMING
    with Evaluator(settings, arguments.out / "cache", arguments.out / "evaluate.log") as evaluator:
        found = evaluator.evaluate(problem, Solution(source=source), stage)
    lines = [f"{label:<12} {text}" for label, text in verdict_lines(found)]
    if arguments.profile and found.profile is None:
        lines.append(f"{'profile':<12} none: only a right candidate is profiled")
    if page is not None:
        write_atomic(page, evaluation_page(found, problem, source))
        lines.append(f"{'page':<12} {page}")
    code = USAGE if found.status is Status.INVALID_PROBLEM else DONE
    return Answer(text="\n".join(lines), data=to_plain(found), code=code)


def _check_writable(page: Path) -> None:
    """Before minutes are spent on what the page shall show."""
    if page.is_dir():
        raise UsageError(f"cannot write {page}: it is a folder")
    if not page.parent.is_dir():
        raise UsageError(f"cannot write {page}: its folder does not exist")
    if not os.access(page.parent, os.W_OK):
        raise UsageError(f"cannot write {page}: its folder is not writable")


def problems(arguments: argparse.Namespace) -> Answer:
    """List the problems that a pattern means."""
    pattern, overrides = arguments.pattern, arguments.overrides
    if "=" in pattern:
        pattern, overrides = "*", [pattern, *overrides]
    _, settings = load_evaluation(overrides)
    library = open_library(settings)
    found = [library.load(name) for name in library.select(pattern)]
    width = max(len(problem.name) for problem in found)
    lines = [f"{problem.name:<{width}}  {_freedom(problem)}" for problem in found]
    rows = [
        {
            "name": problem.name,
            "sha256": problem.source_sha256,
            "path": problem.path,
            "free_dims": to_plain(problem.free_dims),
            "value_sets": list(problem.value_sets),
        }
        for problem in found
    ]
    return Answer(text="\n".join(lines), data=rows)


def _problem(name: str, settings: ProblemSettings) -> Problem:
    path = Path(name)
    return read_problem(path) if path.suffix == ".py" else open_library(settings).load(name)


def _freedom(problem: Problem) -> str:
    free = ", ".join(f"{name} {dim.low}-{dim.high}" for name, dim in problem.free_dims.items())
    return f"free: {free}" if free else "fixed shapes"


def verdict_lines(found: Evaluation) -> Iterator[tuple[str, str]]:
    """Label and text of each line, without the parts that were not reached."""
    yield "problem", found.problem
    yield "solution", found.solution_sha256[:12]
    yield "verdict", f"{found.status} (reached: {found.stage.value})"
    if found.message:
        yield "message", found.message
    if found.tags:
        yield "tags", ", ".join(found.tags)
    for build in found.builds:
        yield "build", f"{build.name}: {'from the cache' if build.cached else seconds(build.wall_s)} ({build.tier})"
    if (correctness := found.correctness) is not None:
        errors = f"largest error {error(correctness.max_abs_error)}, relative {error(correctness.max_rel_error)}"
        yield "correct", f"{correctness.draws_passed} of {correctness.draws_total} draws; {errors}"
        yield "tolerance", correctness.tolerance
    if (timing := found.timing) is not None:
        yield from _timing_lines(timing)
        if timing.compiled:
            yield "reference", f"ran as {COMPILED}"
    if found.profile is not None:
        yield "profile", brief(found.profile)
    if (machine := found.environment) is not None:
        yield "machine", f"{machine.device_name}, {machine.threads} thread(s), torch {machine.torch}, {machine.sandbox}"
        of_gpu = {"driver": machine.driver, "CUDA": machine.cuda, "nvcc": machine.nvcc, "host": machine.host}
        if known := [f"{name} {value}" for name, value in of_gpu.items() if value]:
            yield "gpu", ", ".join(known)


def _timing_lines(timing: Timing) -> Iterator[tuple[str, str]]:
    plain = timing.end_to_end
    if plain is None:
        for label, arm in (("candidate", timing.candidate), ("reference", timing.reference)):
            yield label, f"{duration_interval(arm.median_us, arm.low_us, arm.high_us)} per call"
        yield "speed-up", speedup_interval(timing.speedup, timing.speedup_low, timing.speedup_high)
        yield "clock", timing.clock
        return
    for label, both in ((DEVICE_TIME, timing), (END_TO_END, plain)):
        yield label, _both_arms(both)
    yield "bounded", f"by the judge's clock: {attested_words(timing)}"
    if timing.launch_bound:
        yield "mark", LAUNCH_BOUND
    yield "clock", timing.clock
    known = [f"{row.label} {row.value}" for row in conditions_rows(timing.conditions) if row.value]
    if known:
        yield "conditions", ", ".join(known)


def _both_arms(both: Timing | EndToEnd) -> str:
    new, old = (duration_interval(arm.median_us, arm.low_us, arm.high_us) for arm in (both.candidate, both.reference))
    return f"{speedup_interval(both.speedup, both.speedup_low, both.speedup_high)}: {new}, reference {old} per call"

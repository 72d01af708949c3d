"""Judge one file from the command line: `python -m evaluation PROBLEM FILE`; needs torch, numpy and ninja only."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from evaluation.client import Evaluator
from evaluation.errors import EvaluatorError
from evaluation.profile.brief import brief
from evaluation.serialize import to_plain
from evaluation.settings import EvaluationSettings
from evaluation.verdict import LAUNCH_BOUND, WAITS, EndToEnd, Evaluation, Solution, Stage, Timing
from problems.library import Library, read_problem
from problems.problem import Problem, ProblemError

_CHECKOUT = Path(__file__).resolve().parents[1]
_LANGUAGES = ("cpp", "cuda", "triton")


def main(argv: list[str] | None = None) -> int:
    """0: judged and correct. 1: judged and not correct. 2: could not be judged, in one sentence on stderr."""
    arguments = _parser().parse_args(argv)
    try:
        evaluation = _evaluate(arguments)
    except (ProblemError, EvaluatorError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    text = json.dumps(to_plain(evaluation), indent=2) if arguments.json else summarise(evaluation)
    sys.stdout.write(text + "\n")
    return 0 if evaluation.status.correct else 1


def summarise(evaluation: Evaluation) -> str:
    """What a person at a terminal wants to know."""
    lines = [f"{evaluation.problem}: {evaluation.status} (stage {evaluation.stage})"]
    if evaluation.message:
        lines.append(evaluation.message)
    correctness, timing = evaluation.correctness, evaluation.timing
    if correctness is not None:
        lines.append(
            f"correctness: {correctness.draws_passed} of {correctness.draws_total} draws, "
            f"largest error {correctness.max_abs_error:.3g} ({correctness.tolerance})"
        )
    if timing is not None:
        lines += _timing_lines(timing)
        if timing.compiled:
            lines.append("the reference ran as torch.compile of it")
    if evaluation.profile is not None:
        lines.append(f"profile: {brief(evaluation.profile)}")
    lines += [f"build: {build.name} ({build.tier}, {build.wall_s:.1f} s)" for build in evaluation.builds]
    lines.append(", ".join(f"{name} {seconds:.2f} s" for name, seconds in evaluation.wall_s.items()))
    return "\n".join(lines)


def _timing_lines(timing: Timing) -> list[str]:
    if timing.end_to_end is None:
        return [f"speed-up: {_both_arms(timing, 1)}"]
    lines = [
        f"device time: speed-up {_both_arms(timing, 2)}",
        f"end to end: speed-up {_both_arms(timing.end_to_end, 1)}",
    ]
    if timing.attested_us is None:
        lines.append(f"bounded by the judge's clock: {WAITS}")
    else:
        lines.append(f"bounded by the judge's clock: at least {timing.attested_us:.2f} us of device time")
    return [*lines, LAUNCH_BOUND] if timing.launch_bound else lines


def _both_arms(both: Timing | EndToEnd, digits: int) -> str:
    return (
        f"{both.speedup:.3f} [{both.speedup_low:.3f}, {both.speedup_high:.3f}], "
        f"candidate {both.candidate.median_us:.{digits}f} us, reference {both.reference.median_us:.{digits}f} us"
    )


def _parser() -> argparse.ArgumentParser:
    defaults = EvaluationSettings()
    parser = argparse.ArgumentParser(prog="python -m evaluation", description="Judge one candidate kernel.")
    parser.add_argument("problem", help="a problem's name, such as level1/24_row_softmax, or a KernelBench-form file")
    parser.add_argument("file", type=Path, help="a Python module that defines ModelNew")
    parser.add_argument("--json", action="store_true", help="print the whole evaluation")
    parser.add_argument("--stage", choices=[stage.value for stage in Stage], default=Stage.TIMING.value)
    parser.add_argument("--device", choices=["cpu", "cuda"], default=defaults.device)
    parser.add_argument("--shapes", choices=["fixed", "jitter"], default=defaults.shapes)
    parser.add_argument("--precision", default=defaults.precision, choices=["fp64", "fp32", "tf32", "fp16", "bf16"])
    parser.add_argument("--draws", type=int, default=defaults.draws)
    parser.add_argument("--cpu-threads", type=int, default=defaults.cpu_threads)
    parser.add_argument("--language", choices=_LANGUAGES, default="cpp")
    parser.add_argument("--cache-dir", type=Path, default=_CHECKOUT / "outputs" / "cache")
    parser.add_argument("--log", type=Path, help="where the evaluator's own log goes; default: nowhere")
    return parser


def _evaluate(arguments: argparse.Namespace) -> Evaluation:
    problem = _problem(arguments.problem)
    solution = Solution(source=arguments.file.read_text(), language=arguments.language)
    settings = EvaluationSettings.on(
        arguments.device,
        shapes=arguments.shapes,
        precision=arguments.precision,
        draws=arguments.draws,
        cpu_threads=arguments.cpu_threads,
    )
    with Evaluator(settings, arguments.cache_dir, arguments.log) as evaluator:
        return evaluator.evaluate(problem, solution, Stage(arguments.stage))


def _problem(name: str) -> Problem:
    """A file where there is one, with or without `.py`'s problem folder; else a name of the library."""
    path = Path(name)
    if path.suffix == ".py" and path.is_file():
        return read_problem(path)
    return Library("own").load(name.removesuffix(".py"))


if __name__ == "__main__":
    sys.exit(main())

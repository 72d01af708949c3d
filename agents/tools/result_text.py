"""Texts that a model is shown: one fixed first line per tool and case, bounded, and free of times of the reference."""

from __future__ import annotations

import re

from agents.trajectory import KERNEL_ID_CHARS
from evaluation.verdict import Correctness, Evaluation, Latency, Stage, Status, Timing

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[^\S\n\t ]|[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


UNSETTLED = "Note: the clock did not settle; take the runtime as rough."


def bounded(text: str, limit_chars: int) -> str:
    """`text` without terminal escapes and control characters; if longer than the limit, its head and its tail."""
    text = _ESCAPES.sub("", text)
    if len(text) <= limit_chars:
        return text
    mark = "\n...[ omitted {} characters ]...\n"
    room = max(0, limit_chars - len(mark.format(len(text))))
    head, tail = room - room // 2, room // 2
    return text[:head] + mark.format(len(text) - room) + text[len(text) - tail :]


def kernel_id_line(sha256: str) -> str:
    """Says how the same source may be named in a later call."""
    return f"kernel_id: {sha256[:KERNEL_ID_CHARS]}"


def built(evaluation: Evaluation) -> bool:
    """Whether the kernel got past building and loading."""
    return evaluation.status is not Status.COMPILE_ERROR and (
        evaluation.stage is not Stage.BUILD or evaluation.status.correct
    )


def compile_text(evaluation: Evaluation) -> str:
    """Result of compile_kernel."""
    if built(evaluation):
        return "compile_kernel PASSED: kernel compiled without errors."
    return f"compile_kernel FAILED: {evaluation.status}.\n{evaluation.message}"


def correctness_text(evaluation: Evaluation, draws: int) -> str:
    """Result of run_correctness; `draws` is the count that the judge was asked for."""
    if not built(evaluation):
        return f"run_correctness FAILED: kernel did not compile.\n{evaluation.message}"
    if not evaluation.status.correct or evaluation.correctness is None:
        return _lines(f"run_correctness FAILED: {_trials(evaluation, draws)} trials did not all match.", evaluation)
    return (
        f"run_correctness PASSED: {_trials(evaluation, draws)} trials all matched the reference.\n"
        f"{_precision_line(evaluation.correctness)}"
    )


def submit_text(evaluation: Evaluation, draws: int, tool: str = "submit_kernel") -> str:
    """Result of submit_kernel and evaluate_kernel. Times are the candidate's alone."""
    if not built(evaluation) or not evaluation.status.correct or evaluation.correctness is None:
        return failure_text(evaluation, draws, tool)
    lines = [f"{tool} PASSED: {_trials(evaluation, draws)} correctness trials all passed."]
    if evaluation.timing is not None:
        lines += runtime_lines(evaluation.timing)
    lines.append(_precision_line(evaluation.correctness))
    if evaluation.status is Status.UNSTABLE_TIMING:
        lines.append(UNSETTLED)
    return "\n".join(lines)


def failure_text(evaluation: Evaluation, draws: int, tool: str) -> str:
    """Of a kernel that did not build, or was found wrong, by a tool that wants it right."""
    if not built(evaluation):
        return f"{tool} FAILED: kernel did not compile.\n{evaluation.message}"
    first = f"{tool} FAILED: correctness check did not pass ({_trials(evaluation, draws)} trials)."
    return _lines(first, evaluation)


def needs_gpu_text(tool: str) -> str:
    """Of a tool that tells about a GPU, in a session without one."""
    return f"{tool} FAILED: it needs device=cuda, and the kernels of this session run on the CPU."


def _trials(evaluation: Evaluation, draws: int) -> str:
    found = evaluation.correctness
    return f"({found.draws_passed} / {found.draws_total})" if found else f"(0 / {draws})"


def _lines(first: str, evaluation: Evaluation) -> str:
    wrong = evaluation.status in (Status.INCORRECT_STRUCTURE, Status.INCORRECT_VALUES, Status.TAMPERING)
    lines = [first, f"{'correctness_issue' if wrong else 'runtime_error'}: {evaluation.status}: {evaluation.message}"]
    if evaluation.correctness is not None:
        lines.append(f"max_difference: {evaluation.correctness.max_abs_error:.2e}")
        lines.append(f"avg_difference: {evaluation.correctness.mean_abs_error:.2e}")
    return "\n".join(lines)


def _precision_line(found: Correctness) -> str:
    return (
        f"Numerical precision: max_abs_err={found.max_abs_error:.2e}  mean_abs_err={found.mean_abs_error:.2e}"
        f"  max_rel_err={found.max_rel_error:.2e}"
    )


def runtime_lines(timing: Timing) -> list[str]:
    """Of the candidate alone; the first line is the runtime itself."""
    plain = timing.end_to_end
    kind = "" if plain is None else " (device time)"
    lines = [f"Kernel runtime: {timing.candidate.median_us:.2f} μs{kind}", f"Runtime stats: {_stats(timing.candidate)}"]
    if plain is None:
        return lines
    lines += [
        f"End-to-end runtime: {plain.candidate.median_us:.2f} μs (from the call until the device is idle)",
        f"End-to-end stats: {_stats(plain.candidate)}",
    ]
    if timing.attested_us is None:
        lines.append("Note: the call waits for the device, so its end-to-end runtime counts as well.")
    if timing.launch_bound:
        lines.append(
            "Note: launch-bound: the work is so short on the device that launching outweighs it; fewer launches matter "
            "more than faster kernels."
        )
    return lines


def _stats(latency: Latency) -> str:
    return f"mean={latency.mean_us:.2f}μs  median={latency.median_us:.2f}μs  std={latency.std_us:.2f}μs"

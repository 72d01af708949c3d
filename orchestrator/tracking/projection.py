"""A cell as MLflow shall show it: one run per attempt, in figures that depend on the store alone.

All times come from the journal, so projecting twice gives the same rows and MLflow keeps one of each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from evaluation.verdict import Status
from orchestrator.cell import Cell, Record
from orchestrator.profiled import bottleneck_of, figures_of
from orchestrator.store.claims import Claim, Outcome
from orchestrator.store.journal import Event, Turn, turns, until_attempt

PARAMS_MAX = 40
"""More make MLflow's comparison unusable; cell.json among the artifacts has them all."""
VALUE_MAX = 500

Figure = tuple[str, float, int, int]
"""Name, value, milliseconds since 1970, step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A candidate of one tool call."""

    file_name: str
    solution_sha256: str


@dataclass(slots=True, kw_only=True)
class RunView:
    """One attempt at a cell."""

    uid: str
    attempt: int
    state: str
    """MLflow's RUNNING, FINISHED, FAILED or KILLED."""
    started_ms: int
    ended_ms: int
    params: dict[str, str]
    tags: dict[str, str]
    figures: list[Figure] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)

    @property
    def key(self) -> str:
        """The tag by which the run is found again."""
        return f"{self.uid}/{self.attempt}"


def project(
    cell: Cell, events: Sequence[Event], claims: Sequence[Claim], record: Record | None, *, held: bool
) -> list[RunView]:
    """The runs of one cell. An attempt's run holds everything up to its end, also what it took over.

    `held`: whether the holder of the last claim is at work.
    """
    by_number = {claim.number: claim for claim in claims}
    starts = [event for event in events if event["kind"] == "start"]
    views = []
    for start in starts:
        number = start["attempt"]
        own = until_attempt(events, number)
        mine = record if record is not None and record.attempt == number else None
        state = "FINISHED" if mine else _state(by_number.get(number), runs=held and start is starts[-1])
        view = RunView(
            uid=cell.uid,
            attempt=number,
            state=state,
            started_ms=_ms(start["t"]),
            ended_ms=_ms(own[-1]["t"]),
            params=params(cell),
            tags=_tags(cell, number, by_number.get(number), mine),
        )
        _add_turns(view, turns(own), ended=state != "RUNNING")
        if mine is not None:
            view.ended_ms = _iso_ms(mine.finished_at)
            view.figures += [(name, value, view.ended_ms, 0) for name, value in final_figures(mine).items()]
        views.append(view)
    return views


def params(cell: Cell) -> dict[str, str]:
    """The cell's axes, then its identity in flat form."""
    found = {axis: str(getattr(cell, axis)) for axis in ("problem", "model", "agent", "budget", "evaluation", "seed")}
    for name, value in _flat(cell.identity):
        if len(found) == PARAMS_MAX:
            break
        found.setdefault(name, _short(value))
    return found


def final_figures(record: Record) -> dict[str, float]:
    """What the record says in numbers; what is unknown is left out."""
    grade = record.grade
    timing = grade.timing if grade else None
    plain = timing.end_to_end if timing else None
    correctness = grade.correctness if grade else None
    found: dict[str, float | None] = {
        "final/passed": float(grade is not None and grade.status.correct),
        "final/turns": record.turns,
        "final/tool_calls": record.tool_calls,
        "final/tokens_in": record.usage.prompt_tokens,
        "final/tokens_cached": record.usage.cached_tokens,
        "final/tokens_out": record.usage.completion_tokens,
        "final/cost_usd": record.usage.cost_usd,
        "final/llm_s": record.llm_s,
        "final/tools_s": record.tools_s,
        "final/wall_s": record.wall_s,
        "final/speedup": timing.speedup if timing else None,
        "final/speedup_low": timing.speedup_low if timing else None,
        "final/speedup_high": timing.speedup_high if timing else None,
        "final/latency_us": timing.candidate.median_us if timing else None,
        "final/reference_latency_us": timing.reference.median_us if timing else None,
        "final/end_to_end_us": plain.candidate.median_us if plain else None,
        "final/end_to_end_speedup": plain.speedup if plain else None,
        "final/attested_us": timing.attested_us if timing else None,
        "final/sm_clock_mhz": timing.conditions[-1].sm_clock_mhz if timing and timing.conditions else None,
        "final/max_abs_error": correctness.max_abs_error if correctness else None,
        "final/max_rel_error": correctness.max_rel_error if correctness else None,
    }
    found |= {f"final/{name}": value for name, value in figures_of(grade).items()}
    return {name: float(value) for name, value in found.items() if value is not None}


def _add_turns(view: RunView, all_turns: Sequence[Turn], *, ended: bool) -> None:
    """Figures and kernels of the turns that can no longer change."""
    best: float | None = None
    for turn in all_turns:
        for index, call in enumerate(turn.calls):
            if call.solution_sha256 is not None:
                name = f"turn_{turn.number:03d}_{index}_{call.tool}_{call.solution_sha256[:12]}.py"
                view.kernels.append(Kernel(file_name=name, solution_sha256=call.solution_sha256))
            verdict = call.verdict
            if verdict is not None and verdict.status is Status.PASSED and verdict.timing is not None:
                best = max(best or 0.0, verdict.timing.speedup)
        if turn.closed or ended:
            at = _ms(turn.ended_at)
            view.figures += [(f"turn/{name}", value, at, turn.number) for name, value in _turn_figures(turn, best)]


def _turn_figures(turn: Turn, best: float | None) -> Iterator[tuple[str, float]]:
    if turn.reply is not None:
        usage = turn.reply.usage
        yield "llm_s", turn.llm_s
        if usage.prompt_tokens is not None:
            yield "tokens_in", float(usage.prompt_tokens)
        if usage.cached_tokens is not None:
            yield "tokens_cached", float(usage.cached_tokens)
        if usage.completion_tokens is not None:
            yield "tokens_out", float(usage.completion_tokens)
    if turn.calls:
        yield "tools_s", turn.tools_s
    verdicts = [call.verdict for call in turn.calls if call.verdict is not None]
    if verdicts:
        yield "compiled", float(any(verdict.status is not Status.COMPILE_ERROR for verdict in verdicts))
        checked = [verdict for verdict in verdicts if verdict.correctness is not None and verdict.status.correct]
        yield "correct", float(bool(checked))
        latencies = [verdict.timing.candidate.median_us for verdict in verdicts if verdict.timing is not None]
        if latencies:
            yield "latency_us", latencies[-1]
    if best is not None:
        yield "best_speedup", best


def _state(claim: Claim | None, *, runs: bool) -> str:
    if claim is not None and claim.ended is not None and claim.ended.outcome is Outcome.FAILED:
        return "FAILED"
    return "RUNNING" if runs and claim is not None else "KILLED"


def _tags(cell: Cell, attempt: int, claim: Claim | None, record: Record | None) -> dict[str, str]:
    tags = {"kernelsweep.attempt": f"{cell.uid}/{attempt}", "kernelsweep.cell": cell.uid, "kernelsweep.kind": "attempt"}
    if claim is not None:
        tags |= {"kernelsweep.host": claim.holder.host, "kernelsweep.job": claim.job}
        if claim.ended is not None and claim.ended.cause:
            tags["kernelsweep.cause"] = claim.ended.cause[:VALUE_MAX]
    if record is not None:
        tags |= {"kernelsweep.verdict": record.verdict, "kernelsweep.exit_status": record.exit_status.value}
        if record.graded_sha256 is not None:
            tags["kernelsweep.kernel_sha256"] = record.graded_sha256
        if (bottleneck := bottleneck_of(record.grade)) is not None:
            tags["kernelsweep.bottleneck"] = bottleneck
    return tags


def _flat(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key in sorted(value):
        if isinstance(value[key], dict):
            yield from _flat(value[key], f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value[key]


def _short(value: Any) -> str:
    """The value as text; a long one as its hash, because MLflow would cut it silently."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= VALUE_MAX else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _ms(unix_s: float) -> int:
    return int(unix_s * 1000)


def _iso_ms(text: str) -> int:
    return _ms(datetime.fromisoformat(text).timestamp())

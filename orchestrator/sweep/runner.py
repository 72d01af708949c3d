"""Runs one cell: the agent until it stops, then the grade, then the record. All that it needs is in the cell."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from agents.budget import device_s, spent_in
from agents.factory import build_agent, language_of
from agents.protocols import ExitStatus
from agents.settings import SessionSettings
from agents.trajectory import Trajectory
from evaluation.client import Evaluates
from evaluation.serialize import from_plain
from evaluation.verdict import Evaluation, Solution, Stage
from orchestrator.cell import Cell, Record
from orchestrator.report.page import write_cell_page
from orchestrator.settings import CellSettings, settings_of
from orchestrator.store.claims import Claim
from orchestrator.store.journal import Event, kernel_attempts, turns, working_s
from orchestrator.store.store import Store
from orchestrator.sweep.grading import FINAL, Grade, grade, judged_with_profile
from orchestrator.sweep.parking import Restraint
from problems.library import Library
from problems.problem import Problem, ProblemError

log = logging.getLogger(__name__)


def run_cell(
    cell: Cell, claim: Claim, limits: Restraint, *, experiment: str, trajectory: Trajectory, evaluator: Evaluates
) -> Record:
    """Do, or go on with, all of one cell's work; returns its record, which is not written yet.

    What the trajectory holds is not done again. Raises ProviderError, EvaluatorError and whatever else is not the
    kernel's doing and not the agent's, and what the trajectory's checkpoint raises; the cell is then owed.
    """
    with _noting_device_s(limits, cell, trajectory):
        settings = settings_of(cell)
        problem = _problem(settings)
        trajectory.append("start", attempt=claim.number)
        exit_status = trajectory.exit_status
        if exit_status is None:
            session = SessionSettings(
                agent=settings.agent, model=settings.model, budget=settings.budget, seed=settings.seed
            )
            gate = limits.gate(settings.model)
            agent = build_agent(session, problem=problem, evaluator=evaluator, trajectory=trajectory, gate=gate)
            exit_status = agent.run()
        language = language_of(settings.agent)

        def evaluate(source: str, purpose: str) -> Evaluation:
            trajectory.checkpoint()
            solution = Solution(source=source, language=language)
            if purpose == FINAL and settings.evaluation.profile == "final":
                return judged_with_profile(evaluator, problem, solution)
            return evaluator.evaluate(problem, solution, Stage.TIMING)

        given = grade(trajectory, evaluate)
        return _record(experiment, cell, claim.number, (exit_status, given), trajectory.events)


@contextmanager
def _noting_device_s(limits: Restraint, cell: Cell, trajectory: Trajectory) -> Iterator[None]:
    """However the attempt ends, note the seconds on the device for tools and grades, earlier attempts' included."""
    try:
        yield
    finally:
        events = trajectory.events
        grades = (from_plain(Evaluation, event["evaluation"]) for event in events if event["kind"] == "grade")
        seconds = spent_in(events).gpu_s + sum(map(device_s, grades))
        if seconds:
            limits.note_device_s(cell.uid, seconds)


def publish(store: Store, record: Record, writer: str) -> None:
    """Write the page of a committed record, then list the cell: what is listed is complete."""
    try:
        write_cell_page(store, record.uid)
    except Exception:
        # A page is a projection: `report` makes it again, and the cell is done without it.
        log.exception("page of %s", record.uid)
    store.add_to_index(record, writer)


def mend(store: Store, writer: str) -> None:
    """Publish the records whose process was killed before it could."""
    for uid in store.unindexed():
        record = store.read_record(uid)
        if record is not None:
            publish(store, record, writer)


def _problem(settings: CellSettings) -> Problem:
    problem = Library(settings.problem_source.value, settings.problem_path).load(settings.problem_name)
    if problem.source_sha256 != settings.problem_sha256:
        raise ProblemError(
            f"{problem.path} has changed since the cell was planned (SHA-256 {problem.source_sha256[:12]} instead of "
            f"{settings.problem_sha256[:12]}); run again to plan it anew"
        )
    return problem


def _record(
    experiment: str, cell: Cell, attempt: int, outcome: tuple[ExitStatus, Grade], events: Sequence[Event]
) -> Record:
    exit_status, given = outcome
    spent = spent_in(events)
    all_turns = turns(events)
    return Record(
        uid=cell.uid,
        experiment=experiment,
        cell=cell,
        attempt=attempt,
        exit_status=exit_status,
        verdict=given.verdict,
        turns=spent.turns,
        tool_calls=spent.tool_calls,
        usage=spent.usage,
        truncated=any(turn.reply is not None and turn.reply.truncated for turn in all_turns),
        llm_s=spent.llm_s,
        tools_s=spent.tools_s,
        wall_s=working_s(events),
        started_at=_utc(events[0]["t"]),
        finished_at=_utc(events[-1]["t"]),
        grade=given.evaluation,
        graded_sha256=given.solution_sha256,
        attempts=kernel_attempts(all_turns),
    )


def _utc(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

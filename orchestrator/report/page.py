"""Writes one cell's page from its record, trajectory and solutions: a projection that can be made again at any time."""

from __future__ import annotations

import json
from pathlib import Path

from markupsafe import Markup

from evaluation.serialize import to_plain
from evaluation.verdict import Evaluation
from orchestrator.cell import Cell, Record
from orchestrator.report.page_blocks import (
    builds_block,
    environment_block,
    head_block,
    precision_block,
    problem_title,
    setting,
    verdict_kind,
)
from orchestrator.report.page_format import count, dollars, duration_interval, seconds, total_tokens
from orchestrator.report.page_html import render
from orchestrator.report.page_profile import profile_blocks
from orchestrator.report.page_rows import Block
from orchestrator.report.page_svg import turns_picture
from orchestrator.report.page_timing import conditions_blocks, headline, speedup_words, timing_block
from orchestrator.report.page_turns import Story, bounded, earlier_profiles, read_story
from orchestrator.store.files import write_atomic
from orchestrator.store.store import Store, StoreError
from problems.library import Library
from problems.problem import ProblemError


def write_cell_page(store: Store, uid: str) -> Path:
    """Write `page.html` of a finished cell and return its path. Raises StoreError when the record cannot be read."""
    record = store.read_record(uid)
    if record is None:
        raise StoreError(f"{store.cell_dir(uid)} has no record.json yet: a page shows a finished cell")
    page = store.page_path(uid)
    write_atomic(page, cell_page(record, store.cell_dir(uid)))
    return page


def cell_page(record: Record, cell_dir: Path) -> str:
    """Return the whole page as text."""
    story = read_story(cell_dir, record.attempt)
    grade = record.grade
    blocks: list[Block] = [timing_block(grade), *conditions_blocks(grade), precision_block(grade)]
    blocks += [*profile_blocks(grade, earlier_profiles(story)), builds_block(grade), environment_block(record)]
    return render(
        "page.html.j2",
        record=record,
        title=problem_title(record.cell.problem),
        file_name=f"{record.cell.problem.rsplit('/', 1)[-1]}.py",
        kind=verdict_kind(record.verdict),
        message=grade.message if grade else "",
        headline=headline(record.grade),
        head=head_block(record),
        blocks=blocks,
        story=story,
        attempts_picture=_attempts_picture(record),
        reference=reference_source(record.cell),
        final=_final_source(record, story),
        record_json=json.dumps(to_plain(record), indent=1, ensure_ascii=False),
        bounded=bounded,
        count=count,
        dollars=dollars,
        seconds=seconds,
        total_tokens=total_tokens,
        verdict_words=_verdict_words,
    )


def _verdict_words(evaluation: Evaluation) -> str:
    """One verdict on one line: status, then latency and speed-up where it was timed."""
    timing = evaluation.timing
    if timing is None:
        return f"{evaluation.status} ({evaluation.stage})"
    latency = duration_interval(timing.candidate.median_us, timing.candidate.low_us, timing.candidate.high_us)
    return f"{evaluation.status} · {latency} · {speedup_words(timing)}"


def _attempts_picture(record: Record) -> Markup | None:
    points = [(item.turn, item.status, item.latency_us, item.speedup) for item in record.attempts]
    return turns_picture(points) if points else None


def reference_source(cell: Cell) -> tuple[str, str]:
    """Return (source, reason why there is none); only the very text that was judged is shown as the reference."""
    path = setting(cell.runtime, "problem", "path")
    try:
        library = Library(setting(cell.runtime, "problem", "source") or "own", Path(path) if path else None)
        problem = library.load(cell.problem)
    except ProblemError as error:
        return "", f"{error}. The first turn's prompt shows the problem as the agent saw it."
    if problem.source_sha256 != setting(cell.identity, "problem", "sha256"):
        return "", f"{problem.path} has changed since. The first turn's prompt shows it as the agent saw it."
    return problem.source, ""


def _final_source(record: Record, story: Story) -> tuple[str, str]:
    """Return (the graded kernel, whole; reason why there is none)."""
    if record.graded_sha256 is None:
        return "", "No kernel was written, so none was graded."
    kernel = story.kernels.get(record.graded_sha256)
    gone = f"solutions/{record.graded_sha256[:12]}.py is gone, and no call of the trajectory holds this source."
    return (kernel.source, "") if kernel is not None else ("", gone)

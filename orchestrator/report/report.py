"""Writes one experiment's report: report.html, and the same figures as report.csv, report.md and report.tex."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

import yaml
from markupsafe import Markup

from evaluation.serialize import from_plain, to_plain
from evaluation.verdict import LAUNCH_BOUND_US, Timing
from orchestrator.cell import Record
from orchestrator.checkout import Checkout
from orchestrator.profiled import figures_of
from orchestrator.report.page_blocks import verdict_kind
from orchestrator.report.page_figures import PROFILE_COLUMNS, profile_texts
from orchestrator.report.page_format import count, dollars, duration, seconds, total_tokens
from orchestrator.report.page_html import render
from orchestrator.report.page_svg import SpeedupDot, speedups_picture
from orchestrator.report.page_timing import is_launch_bound
from orchestrator.report.spreadsheet import csv_text
from orchestrator.report.statistics import CAP, RESAMPLES
from orchestrator.report.tables import (
    LAUNCH_BOUND_MARK,
    NOTHING,
    group_rows,
    group_table,
    latex_text,
    markdown_text,
    row_speedup,
    speedup_texts,
)
from orchestrator.store.files import write_atomic
from orchestrator.store.index import Row
from orchestrator.store.store import Store

BASELINE = "baseline"
CONFIG, HOST = "experiment.yaml", "environment.json"
CELL_COLUMNS = (
    "problem", "model", "agent", "budget", "seed", "verdict", "speed-up", "runtime", "reference", "turns", "tokens",
    "cost", "wall",
)  # fmt: skip
DEVICE_CELL_COLUMNS = ("speed-up, end to end", "end to end", "reference, end to end")


def write_report(store: Store) -> Path:
    """Write the report of all finished cells and return the path of report.html. Raises StoreError on a bad record."""
    uids = _uids(store)
    records = list(finished_records(store))
    rows = [Row.of(record) for record in records]
    groups = group_rows(rows)
    group_columns, group_lines = group_table(groups)
    on_device = any(row.end_to_end_speedup is not None for row in rows)
    profiled = any(figures_of(record.grade) for record in records)
    path = store.root / "report.html"
    write_atomic(store.root / "report.csv", csv_text(records))
    write_atomic(store.root / "report.md", markdown_text(store.name, groups, rows))
    write_atomic(store.root / "report.tex", latex_text(groups))
    html = render(
        "report.html.j2",
        script="sort.js",
        name=store.name,
        planned=len(uids),
        finished=len(rows),
        verdicts=sorted(Counter(row.verdict for row in rows).items(), key=lambda item: -item[1]),
        span=(min(record.started_at for record in records), max(row.finished_at for row in rows)) if rows else None,
        group_columns=group_columns,
        groups=group_lines,
        picture=_picture(records),
        baseline=_baseline(records),
        on_device=on_device,
        profiled=profiled,
        cell_columns=CELL_COLUMNS
        + (DEVICE_CELL_COLUMNS if on_device else ())
        + (tuple(PROFILE_COLUMNS) if profiled else ()),
        cells=[_cell_line(record, on_device=on_device, profiled=profiled) for record in records],
        environments=_environments(records),
        files=_files(store),
        again=_again(store),
        launch_bound_us=LAUNCH_BOUND_US,
        cap=CAP,
        resamples=RESAMPLES,
    )
    write_atomic(path, html)
    return path


def finished_records(store: Store) -> Iterator[Record]:
    """The records of an experiment, by uid. Raises StoreError on a bad one."""
    return (record for uid in _uids(store) if (record := store.read_record(uid)) is not None)


def _uids(store: Store) -> list[str]:
    return sorted(path.name for path in store.cells_dir.iterdir()) if store.cells_dir.is_dir() else []


def _cell_line(record: Record, *, on_device: bool, profiled: bool) -> dict[str, str | list[tuple[str, str]]]:
    """One line of the table of cells: link, verdict, and (text, sort key) of each figure; unknown sorts last."""
    row = Row.of(record)
    timing = record.grade.timing if record.grade else None
    tokens = total_tokens(row.prompt_tokens, row.completion_tokens)
    figures: list[tuple[str, float | str | None]] = [
        (row_speedup(row), row.speedup),
        (duration(timing.candidate.median_us) if timing else NOTHING, row.latency_us),
        (_reference_text(timing), timing.reference.median_us if timing else None),
        (str(row.turns), row.turns),
        (count(tokens), tokens),
        (dollars(row.cost_usd), row.cost_usd),
        (seconds(row.wall_s), row.wall_s),
    ]
    if on_device:
        plain = timing.end_to_end if timing else None
        figures += [
            (speedup_texts(row)[1], row.end_to_end_speedup),
            (duration(plain.candidate.median_us) if plain else NOTHING, row.end_to_end_us),
            (duration(plain.reference.median_us) if plain else NOTHING, plain.reference.median_us if plain else None),
        ]
    if profiled:
        figures += profile_texts(record.grade)
    return {
        "href": f"cells/{quote(row.uid)}/page.html",
        "problem": row.problem,
        "axes": [(value, value) for value in (row.model, row.agent, row.budget, str(row.seed))],
        "verdict": row.verdict,
        "kind": verdict_kind(row.verdict),
        "figures": [(text, "" if key is None else str(key)) for text, key in figures],
    }


def _reference_text(timing: Timing | None) -> str:
    if timing is None:
        return NOTHING
    return duration(timing.reference.median_us) + (f" {LAUNCH_BOUND_MARK}" if is_launch_bound(timing) else "")


def is_baseline(record: Record) -> bool:
    """Whether the cell is an A/A check: its kernel is the reference itself."""
    return bool(record.cell.identity.get("agent", {}).get("kind", record.cell.agent) == BASELINE)


def _picture(records: Iterable[Record]) -> Markup | None:
    rows: dict[str, list[SpeedupDot]] = {}
    for record in records:
        timing = record.grade.timing if record.grade else None
        if timing is not None:
            rows.setdefault(record.cell.problem, []).append(
                SpeedupDot(
                    speedup=timing.speedup,
                    low=timing.speedup_low,
                    high=timing.speedup_high,
                    title=record.uid,
                    baseline=is_baseline(record),
                )
            )
    return speedups_picture(sorted(rows.items())) if rows else None


def _baseline(records: Iterable[Record]) -> dict[str, object] | None:
    """The A/A cells: how many intervals contain 1, and each one's line."""
    lines: list[tuple[str, str, str, bool]] = []
    for record in records:
        if is_baseline(record):
            timing = record.grade.timing if record.grade else None
            holds = timing is not None and timing.speedup_low <= 1 <= timing.speedup_high
            text = row_speedup(Row.of(record)) if timing else record.verdict
            lines.append((record.uid, f"cells/{quote(record.uid)}/page.html", text, holds))
    if not lines:
        return None
    return {"lines": lines, "holds": sum(holds for *_, holds in lines), "cells": len(lines)}


def _environments(records: Iterable[Record]) -> list[tuple[int, str]]:
    """Every distinct environment in which a grade was made, with the number of its cells."""
    found = Counter(
        json.dumps(to_plain(record.grade.environment), indent=1, ensure_ascii=False)
        for record in records
        if record.grade is not None and record.grade.environment is not None
    )
    return [(number, text) for text, number in found.most_common()]


def _files(store: Store) -> list[tuple[str, str]]:
    """What the last launch left beside the cells: the resolved config, and the state of the checkout and machine."""
    paths = [store.root / name for name in (CONFIG, HOST)]
    return [(path.name, path.read_text(encoding="utf-8")) for path in paths if path.is_file()]


def _again(store: Store) -> tuple[str, str]:
    """The command of the last launch, and at which commit it was given; either is empty where it is not kept."""
    config, host = store.root / CONFIG, store.root / HOST
    command = commit = ""
    if config.is_file():
        overrides = yaml.safe_load(config.read_text(encoding="utf-8"))["overrides"]
        command = shlex.join(["kernelsweep", "run", *overrides])
    if host.is_file():
        checkout = from_plain(Checkout, json.loads(host.read_text(encoding="utf-8"))["checkout"])
        changes = " with uncommitted changes" if checkout.patch_sha256 else ""
        commit = f"commit {checkout.commit}{changes}" if checkout.commit else checkout.note
    return command, commit

"""The cells of an experiment as tables: for the terminal, for a spreadsheet, for a paper."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evaluation.verdict import Status
from orchestrator.cell import Record
from orchestrator.report.page_format import count, dollars, seconds, significant, speedup_interval, total_tokens
from orchestrator.report.statistics import Estimate, by_problem, capped_geometric_mean, sum_if_known, wilson
from orchestrator.store.index import Row

NOTHING = "-"


def format_table(rows: Iterable[Row]) -> str:
    """Cells in the given order as aligned text. What is unknown is `-`."""
    lines = [("cell", "verdict", "speed-up [95 %]", "turns", "tokens")]
    for row in rows:
        tokens = total_tokens(row.prompt_tokens, row.completion_tokens)
        lines.append(
            (row.uid, row.verdict, row_speedup(row), str(row.turns), NOTHING if tokens is None else f"{tokens:,}")
        )
    widths = [max(len(line[column]) for line in lines) for column in range(5)]
    return "\n".join(
        "  ".join(
            value.ljust(width) if column < 3 else value.rjust(width)
            for column, (value, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def row_speedup(row: Row) -> str:
    """`1.45x [1.41, 1.49]`, or `-` where there is none."""
    if row.speedup is None or row.speedup_low is None or row.speedup_high is None:
        return NOTHING
    return speedup_interval(row.speedup, row.speedup_low, row.speedup_high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """All cells of one model, agent and budget."""

    model: str
    agent: str
    budget: str
    cells: int
    solved: Estimate
    faster: int
    """Cells whose whole interval lies above 1."""
    median: Estimate | None
    """Median speed-up of the solved cells; None when none is solved."""
    geometric: Estimate | None
    """Capped geometric mean speed-up of the solved cells."""
    geometric_all: Estimate
    """The same over all cells, where one without a speed-up counts as 1: the reference would be kept."""
    tokens: int | None
    cached_tokens: int | None
    """Part of `tokens` that was read from providers' caches."""
    cost_usd: float | None
    wall_s: float


def group_rows(rows: Iterable[Row]) -> list[Group]:
    """Summarise by (model, agent, budget)."""
    parts: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        parts.setdefault((row.model, row.agent, row.budget), []).append(row)
    return [_group(key, parts[key]) for key in sorted(parts)]


def _group(key: tuple[str, str, str], rows: Sequence[Row]) -> Group:
    solved: dict[str, list[float]] = {}
    everything: dict[str, list[float]] = {}
    for row in rows:
        everything.setdefault(row.problem, []).append(1.0 if row.speedup is None else row.speedup)
        if row.speedup is not None:
            solved.setdefault(row.problem, []).append(row.speedup)
    tokens = sum_if_known([total_tokens(row.prompt_tokens, row.completion_tokens) for row in rows])
    cached = sum_if_known([row.cached_tokens for row in rows])
    return Group(
        model=key[0],
        agent=key[1],
        budget=key[2],
        cells=len(rows),
        solved=wilson(sum(is_correct(row) for row in rows), len(rows)),
        faster=sum(row.speedup_low is not None and row.speedup_low > 1 for row in rows),
        median=by_problem(_median, solved) if solved else None,
        geometric=by_problem(capped_geometric_mean, solved) if solved else None,
        geometric_all=by_problem(capped_geometric_mean, everything),
        tokens=None if tokens is None else int(tokens),
        cached_tokens=None if cached is None else int(cached),
        cost_usd=sum_if_known([row.cost_usd for row in rows]),
        wall_s=sum(row.wall_s for row in rows),
    )


def is_correct(row: Row) -> bool:
    """Whether the cell's kernel computes the right values."""
    return row.verdict in (Status.PASSED, Status.UNSTABLE_TIMING)


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


GROUP_COLUMNS = (
    "model",
    "agent",
    "budget",
    "cells",
    "solved",
    "faster",
    "median speed-up",
    "geometric mean",
    "geometric mean, all cells",
    "tokens",
    "of them cached",
    "cost",
    "wall",
)


def group_texts(group: Group) -> list[str]:
    """One group as texts, in the order of GROUP_COLUMNS."""
    solved = group.solved
    share = f"{100 * solved.value:.0f} % [{100 * (solved.low or 0):.0f}, {100 * (solved.high or 0):.0f}]"
    means = [estimate_text(item) for item in (group.median, group.geometric, group.geometric_all)]
    return [
        group.model,
        group.agent,
        group.budget,
        str(group.cells),
        share,
        str(group.faster),
        *means,
        count(group.tokens),
        count(group.cached_tokens),
        dollars(group.cost_usd),
        seconds(group.wall_s),
    ]


def estimate_text(estimate: Estimate | None) -> str:
    """`1.45x [1.41, 1.49]`; without an interval `1.45x`; without a value `-`."""
    if estimate is None:
        return NOTHING
    if estimate.low is None or estimate.high is None:
        return f"{significant(estimate.value, 3)}x"
    return speedup_interval(estimate.value, estimate.low, estimate.high)


def csv_text(records: Iterable[Record]) -> str:
    """One row a cell at full precision; what is unknown is an empty field."""
    buffer = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for record in records:
        fields = csv_fields(record)
        if writer is None:
            writer = csv.DictWriter(buffer, fieldnames=list(fields), lineterminator="\n")
            writer.writeheader()
        writer.writerow(fields)
    return buffer.getvalue()


def csv_fields(record: Record) -> Mapping[str, object]:
    """The index's row of a cell, and what the grade says beyond it. None is written as an empty field."""
    grade, usage = record.grade, record.usage
    timing = grade.timing if grade else None
    found = grade.correctness if grade else None
    return {
        **Row.of(record).plain(),
        "started_at": record.started_at,
        "reasoning_tokens": usage.reasoning_tokens,
        "truncated": record.truncated,
        "llm_s": record.llm_s,
        "tools_s": record.tools_s,
        "latency_low_us": timing.candidate.low_us if timing else None,
        "latency_high_us": timing.candidate.high_us if timing else None,
        "latency_mean_us": timing.candidate.mean_us if timing else None,
        "latency_std_us": timing.candidate.std_us if timing else None,
        "reference_median_us": timing.reference.median_us if timing else None,
        "reference_low_us": timing.reference.low_us if timing else None,
        "reference_high_us": timing.reference.high_us if timing else None,
        "reference_mean_us": timing.reference.mean_us if timing else None,
        "reference_std_us": timing.reference.std_us if timing else None,
        "max_abs_error": found.max_abs_error if found else None,
        "mean_abs_error": found.mean_abs_error if found else None,
        "max_rel_error": found.max_rel_error if found else None,
        "mean_rel_error": found.mean_rel_error if found else None,
        "kernelbench_passed": found.kernelbench_passed if found else None,
        "graded_sha256": record.graded_sha256,
    }


def markdown_text(title: str, groups: Sequence[Group], rows: Iterable[Row]) -> str:
    """Both tables in Markdown."""
    cells = [
        [row.uid, row.verdict, row_speedup(row), str(row.turns), _tokens(row)]
        for row in sorted(rows, key=lambda row: row.uid)
    ]
    return (
        f"# {title}\n\n{_markdown(GROUP_COLUMNS, [group_texts(group) for group in groups])}\n"
        f"\n{_markdown(('cell', 'verdict', 'speed-up [95 %]', 'turns', 'tokens'), cells)}\n"
    )


def _tokens(row: Row) -> str:
    return count(total_tokens(row.prompt_tokens, row.completion_tokens))


def _markdown(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    body = [columns, ["---"] * len(columns), *lines]
    return "\n".join("| " + " | ".join(value.replace("|", "\\|") for value in line) + " |" for line in body)


def latex_text(groups: Sequence[Group]) -> str:
    """The table by model, agent and budget for a paper; needs the package booktabs."""
    header = " & ".join(_latex(name) for name in GROUP_COLUMNS)
    body = "\n".join(" & ".join(_latex(value) for value in group_texts(group)) + r" \\" for group in groups)
    columns = "lll" + "r" * (len(GROUP_COLUMNS) - 3)
    rule = "\\toprule\n{} \\\\\n\\midrule\n{}\n\\bottomrule\n"
    return f"\\begin{{tabular}}{{{columns}}}\n{rule.format(header, body)}\\end{{tabular}}\n"


def _latex(value: str) -> str:
    return "".join(_LATEX.get(character, character) for character in value)


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}

"""The cells of an experiment as tables: for the terminal, for a page, for a paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evaluation.verdict import LAUNCH_BOUND, Status
from orchestrator.report.page_format import (
    DEVICE_TIME,
    END_TO_END,
    count,
    dollars,
    seconds,
    significant,
    speedup_interval,
    total_tokens,
)
from orchestrator.report.statistics import Estimate, by_problem, capped_geometric_mean, sum_if_known, wilson
from orchestrator.store.index import Row

NOTHING = "-"
LAUNCH_BOUND_MARK = "†"


def format_table(rows: Iterable[Row]) -> str:
    """Cells in the given order as aligned text. What is unknown is `-`."""
    found = list(rows)
    names = speedup_columns(found)
    lines = [("cell", "verdict", *names, "turns", "tokens")]
    for row in found:
        tokens = total_tokens(row.prompt_tokens, row.completion_tokens)
        speedups = speedup_texts(row)[: len(names)]
        lines.append((row.uid, row.verdict, *speedups, str(row.turns), NOTHING if tokens is None else f"{tokens:,}"))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    table = "\n".join(
        "  ".join(
            value.ljust(width) if column < 2 + len(names) else value.rjust(width)
            for column, (value, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
    return f"{table}\n{LAUNCH_BOUND_MARK} {LAUNCH_BOUND}" if any(row.launch_bound for row in found) else table


def speedup_columns(rows: Iterable[Row]) -> tuple[str, ...]:
    """Names of the columns of speed-ups: the second kind of time is there where a device was timed."""
    if all(row.end_to_end_speedup is None for row in rows):
        return ("speed-up [95 %]",)
    return (f"speed-up, {DEVICE_TIME} [95 %]", f"speed-up, {END_TO_END} [95 %]")


def speedup_texts(row: Row) -> tuple[str, str]:
    """Both speed-ups of a cell; the first is marked where it says little about a kernel on a device."""
    first = row_speedup(row) + (f" {LAUNCH_BOUND_MARK}" if row.launch_bound else "")
    plain, low, high = row.end_to_end_speedup, row.end_to_end_speedup_low, row.end_to_end_speedup_high
    if plain is None or low is None or high is None:
        return first, NOTHING
    return first, speedup_interval(plain, low, high)


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
    launch_bound: int
    """Cells on a device whose speed-up says little about a kernel."""
    median: Estimate | None
    """Median speed-up of the solved cells; None when none is solved."""
    end_to_end: Estimate | None
    """The same of end-to-end times; None when none was timed on a device."""
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
    plain: dict[str, list[float]] = {}
    for row in rows:
        if row.end_to_end_speedup is not None:
            plain.setdefault(row.problem, []).append(row.end_to_end_speedup)
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
        launch_bound=sum(bool(row.launch_bound) for row in rows),
        median=by_problem(_median, solved) if solved else None,
        end_to_end=by_problem(_median, plain) if plain else None,
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
DEVICE_COLUMNS = ("median speed-up, end to end", "launch-bound")


def group_table(groups: Sequence[Group]) -> tuple[tuple[str, ...], list[list[str]]]:
    """Names of the columns and the groups as texts; DEVICE_COLUMNS are there where a device was timed."""
    lines = [_group_texts(group) for group in groups]
    if all(group.end_to_end is None for group in groups):
        return GROUP_COLUMNS, lines
    for line, group in zip(lines, groups, strict=True):
        line += [estimate_text(group.end_to_end), NOTHING if group.end_to_end is None else str(group.launch_bound)]
    return GROUP_COLUMNS + DEVICE_COLUMNS, lines


def _group_texts(group: Group) -> list[str]:
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


def markdown_text(title: str, groups: Sequence[Group], rows: Iterable[Row]) -> str:
    """Both tables in Markdown."""
    found = sorted(rows, key=lambda row: row.uid)
    names = speedup_columns(found)
    cells = [[row.uid, row.verdict, *speedup_texts(row)[: len(names)], str(row.turns), _tokens(row)] for row in found]
    note = f"\n{LAUNCH_BOUND_MARK} {LAUNCH_BOUND}\n" if any(row.launch_bound for row in found) else ""
    return (
        f"# {title}\n\n{_markdown(*group_table(groups))}\n"
        f"\n{_markdown(('cell', 'verdict', *names, 'turns', 'tokens'), cells)}\n{note}"
    )


def _tokens(row: Row) -> str:
    return count(total_tokens(row.prompt_tokens, row.completion_tokens))


def _markdown(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    body = [columns, ["---"] * len(columns), *lines]
    return "\n".join("| " + " | ".join(value.replace("|", "\\|") for value in line) + " |" for line in body)


def latex_text(groups: Sequence[Group]) -> str:
    """The table by model, agent and budget for a paper; needs the package booktabs."""
    names, lines = group_table(groups)
    header = " & ".join(_latex(name) for name in names)
    body = "\n".join(" & ".join(_latex(value) for value in line) + r" \\" for line in lines)
    columns = "lll" + "r" * (len(names) - 3)
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

"""The blocks of a cell's page: labelled figures, each with its value or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from evaluation.verdict import Correctness, Evaluation, Status, Timing
from orchestrator.cell import Record
from orchestrator.report.page_format import (
    count,
    dollars,
    duration_interval,
    durations,
    error,
    seconds,
    speedup_interval,
    total_tokens,
)
from orchestrator.report.page_svg import samples_picture

NOT_RECORDED = "not recorded"
LAUNCH_BOUND_US = 10.0


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `absent` says why there is no value; exactly one of the two is given."""

    label: str
    value: str = ""
    absent: str = ""

    def __post_init__(self) -> None:
        if bool(self.value) == bool(self.absent):
            raise ValueError(f"{self.label}: a row has either a value or the reason of its absence")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A small table of texts."""

    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One titled part of the page; `source` says what measured it."""

    title: str
    source: str = ""
    rows: list[Row] = field(default_factory=list)
    table: Table | None = None
    picture: Markup | None = None

    @property
    def common_absence(self) -> str:
        """The reason that all rows share when none has a value, else empty."""
        reasons = {row.absent for row in self.rows}
        return next(iter(reasons)) if len(reasons) == 1 and len(self.rows) > 1 else ""


def setting(identity: Mapping[str, Any], *path: str) -> Any:
    """Return a value inside a cell's identity, or None where the identity has no such entry."""
    value: Any = identity
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return None
        value = value[key]
    return value


def known(value: Any, nothing: str = NOT_RECORDED) -> str:
    """Return `value` as text; None and the empty string become `nothing`."""
    return nothing if value is None or value == "" else str(value)


def unreached(grade: Evaluation | None, part: str) -> str:
    """Say why `part` of the grade does not exist."""
    if grade is None:
        return f"no {part}: no kernel was written, so none was graded"
    return f"no {part}: the evaluation ended as {grade.status} in stage {grade.stage}"


def problem_title(problem: str) -> str:
    """`level1/23_virtual_all_reduce_mean` -> `L1 P23`; another form of name is kept as it is."""
    folder, _, stem = problem.rpartition("/")
    level, number = folder.rpartition("/")[2].removeprefix("level"), stem.split("_")[0]
    return f"L{level} P{number}" if level.isdigit() and number.isdigit() else problem


def verdict_kind(verdict: str) -> str:
    """The colour of a verdict: right, right with an unsettled time, or neither."""
    return {Status.PASSED.value: "good", Status.UNSTABLE_TIMING.value: "doubtful"}.get(verdict, "bad")


def head_block(record: Record) -> Block:
    """What was asked, of whom, and how it ended."""
    cell, identity, grade = record.cell, record.cell.identity, record.grade
    timing = grade.timing if grade else None
    no_timing = unreached(grade, "timing")
    tokens = total_tokens(record.usage.prompt_tokens, record.usage.completion_tokens)
    rows = [
        Row("problem", cell.problem),
        Row("variant", f"shapes {known(setting(identity, 'evaluation', 'shapes'))}"),
        Row("model", cell.model),
        Row("agent", cell.agent),
        Row("budget", cell.budget),
        Row("seed", str(cell.seed)),
        Row("turns / max", f"{record.turns} / {limit(identity, 'turns')}"),
        Row("tool calls / max", f"{record.tool_calls} / {limit(identity, 'tool_calls')}"),
        Row("tokens (total)", count(tokens)),
        Row("cost", dollars(record.usage.cost_usd)),
        Row("wall clock", seconds(record.wall_s)),
        Row("LLM / tools", f"{seconds(record.llm_s)} / {seconds(record.tools_s)}"),
        Row("truncated", "yes" if record.truncated else "no"),
        Row("ended as", f"{record.exit_status} (attempt {record.attempt})"),
        Row("backend", backend(identity)),
        *runtime_rows(timing, no_timing),
        Row("started", record.started_at),
        Row("finished", record.finished_at),
    ]
    return Block(title="run", rows=rows)


def limit(identity: Mapping[str, Any], key: str) -> str:
    """Return a bound of the budget; None there means that there is none."""
    value = setting(identity, "budget", key)
    return "no limit" if value is None else f"{value:,}"


def backend(identity: Mapping[str, Any]) -> str:
    """`cpp fp32 on cpu`."""
    parts = [setting(identity, *path) for path in (("agent", "backend"), ("evaluation", "precision"))]
    return f"{' '.join(known(part) for part in parts)} on {known(setting(identity, 'evaluation', 'device'))}"


def runtime_rows(timing: Timing | None, absent: str) -> list[Row]:
    """Runtime of both arms and their ratio, with intervals."""
    if timing is None:
        return [Row(label, absent=absent) for label in ("runtime", "reference runtime", "speed-up")]
    new, old = timing.candidate, timing.reference
    return [
        Row("runtime", duration_interval(new.median_us, new.low_us, new.high_us)),
        Row("reference runtime", duration_interval(old.median_us, old.low_us, old.high_us)),
        Row("speed-up", speedup_interval(timing.speedup, timing.speedup_low, timing.speedup_high)),
    ]


def is_launch_bound(timing: Timing) -> bool:
    """Whether the reference is so short that what surrounds a kernel outweighs it."""
    return timing.reference.median_us < LAUNCH_BOUND_US


def timing_block(grade: Evaluation | None) -> Block:
    """Both arms by the judge's clock."""
    timing = grade.timing if grade else None
    absent = unreached(grade, "timing")
    rows = runtime_rows(timing, absent)
    means = ("kernel mean / median / std", "reference mean / median / std")
    others = ("faster than the reference", "size", "blocks", "clock", "measuring took")
    if timing is None:
        return Block(title="timing", rows=rows + [Row(label, absent=absent) for label in (*means, *others)])
    for label, arm in zip(means, (timing.candidate, timing.reference), strict=True):
        rows.append(Row(label, durations([arm.mean_us, arm.median_us, arm.std_us])))
    settled = (
        ""
        if grade is None or grade.status is not Status.UNSTABLE_TIMING
        else "; the interval did not become tight enough"
    )
    claim = "yes: the whole interval lies above 1" if timing.faster else "not shown: the interval reaches 1 or less"
    blocks = (
        f"{len(timing.candidate.samples_us)} pairs of {timing.calls_per_block} calls each, "
        f"from {timing.process_pairs} processes of each arm"
    )
    size = "launch-bound: a call is so short that the speed-up says little about the kernel"
    values = (
        claim + settled,
        size if is_launch_bound(timing) else f"the reference takes at least {LAUNCH_BOUND_US:g} µs",
        blocks,
        timing.clock,
        seconds(timing.wall_s),
    )
    rows += [Row(label, known(value)) for label, value in zip(others, values, strict=True)]
    return Block(
        title="timing",
        source="judge's clock; medians of the blocks with 95 % intervals",
        rows=rows,
        picture=samples_picture(timing),
    )


def precision_block(grade: Evaluation | None) -> Block:
    """Agreement with the oracle, over all draws and draw by draw."""
    labels = ("max abs error", "mean abs error", "max rel error", "mean rel error")
    yardsticks = ("rms error of kernel / of reference", "draws passed", "tolerance", "kernelbench verdict", "weights")
    found = grade.correctness if grade else None
    if found is None:
        absent = unreached(grade, "comparison")
        return Block(title="numerical precision", rows=[Row(label, absent=absent) for label in (*labels, *yardsticks)])
    errors = (found.max_abs_error, found.mean_abs_error, found.max_rel_error, found.mean_rel_error)
    rows = [Row(label, error(value)) for label, value in zip(labels, errors, strict=True)]
    values = (
        f"{error(found.candidate_rms_error)} / {error(found.reference_rms_error)}",
        f"{found.draws_passed} / {found.draws_total}",
        found.tolerance,
        {True: "passed", False: "failed", None: "none"}[found.kernelbench_passed],
        found.weights_rule,
    )
    rows += [Row(label, known(value)) for label, value in zip(yardsticks, values, strict=True)]
    return Block(
        title="numerical precision",
        source="against the reference in float64 (the oracle), over all elements of all draws",
        rows=rows,
        table=draws_table(found),
    )


def draws_table(found: Correctness) -> Table:
    """One row per draw of inputs."""
    return Table(
        columns=["draw", "value set", "sizes", "verdict", "max abs error", "max rel error", "seed"],
        rows=[
            [
                str(index),
                draw.value_set,
                ", ".join(f"{name}={size}" for name, size in draw.dims.items()) or "as in the file",
                "passed" if draw.passed else "failed",
                error(draw.max_abs_error),
                error(draw.max_rel_error),
                str(draw.seed),
            ]
            for index, draw in enumerate(found.draws, start=1)
        ],
    )


def builds_block(grade: Evaluation | None) -> Block:
    """Native objects that the graded kernel asked for."""
    if grade is None:
        return Block(title="builds", rows=[Row("native builds", absent=unreached(grade, "build"))])
    stages = ", ".join(f"{name} {seconds(value)}" for name, value in grade.wall_s.items())
    rows = [Row("seconds by stage", known(stages)), Row("static findings", ", ".join(grade.tags) or "none")]
    if not grade.builds:
        return Block(title="builds", rows=[Row("native builds", "none asked for"), *rows])
    table = Table(
        columns=["name", "headers", "from cache", "took", "key"],
        rows=[
            [build.name, build.tier, "yes" if build.cached else "no", seconds(build.wall_s), build.key[:12]]
            for build in grade.builds
        ],
    )
    return Block(title="builds", rows=rows, table=table)


def environment_block(record: Record) -> Block:
    """Where the verdict was made, and what was asked of it."""
    grade, identity = record.grade, record.cell.identity
    found = grade.environment if grade else None
    labels = ("device", "threads", "torch", "python", "compiler", "platform", "sandbox")
    if found is None:
        rows = [Row(label, absent=unreached(grade, "environment")) for label in labels]
    else:
        values = (
            f"{found.device}: {known(found.device_name)}",
            str(found.threads),
            found.torch,
            found.python,
            found.compiler,
            found.platform,
            f"level {found.sandbox_level}: {known(found.sandbox)}",
        )
        rows = [Row(label, known(value)) for label, value in zip(labels, values, strict=True)]
        of_gpu = {"driver": found.driver, "CUDA": found.cuda, "nvcc": found.nvcc, "host": found.host}
        rows += [Row(label, value) for label, value in of_gpu.items() if value]
    rows += [
        Row("problem sha256", known(setting(identity, "problem", "sha256"))),
        Row("graded kernel sha256", known(record.graded_sha256, "none graded")),
        Row("record schema", str(record.schema_version)),
    ]
    return Block(title="environment", rows=rows)

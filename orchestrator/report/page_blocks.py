"""The blocks of a cell's page that say what was asked, what came out, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluation.verdict import Correctness, Evaluation, Status
from orchestrator.cell import Record
from orchestrator.report.page_format import count, dollars, error, seconds, total_tokens
from orchestrator.report.page_rows import Block, Row, Table, known, unreached
from orchestrator.report.page_timing import runtime_rows


def setting(identity: Mapping[str, Any], *path: str) -> Any:
    """Return a value inside a cell's identity, or None where the identity has no such entry."""
    value: Any = identity
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return None
        value = value[key]
    return value


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
    rows = [
        *environment_rows(record.grade),
        Row("problem sha256", known(setting(record.cell.identity, "problem", "sha256"))),
        Row("graded kernel sha256", known(record.graded_sha256, "none graded")),
        Row("record schema", str(record.schema_version)),
    ]
    return Block(title="environment", rows=rows)


def environment_rows(grade: Evaluation | None) -> list[Row]:
    """The machine and its software."""
    found = grade.environment if grade else None
    labels = ("device", "threads", "torch", "python", "compiler", "platform", "sandbox")
    if found is None:
        return [Row(label, absent=unreached(grade, "environment")) for label in labels]
    values = (
        f"{found.device}: {known(found.device_name)}",
        str(found.threads),
        found.torch,
        found.python,
        found.compiler,
        found.platform,
        f"level {found.sandbox_level}: {known(found.sandbox)}",
    )
    of_gpu = {"driver": found.driver, "CUDA": found.cuda, "nvcc": found.nvcc, "host": found.host}
    return [
        *(Row(label, known(value)) for label, value in zip(labels, values, strict=True)),
        *(Row(label, value) for label, value in of_gpu.items() if value),
    ]

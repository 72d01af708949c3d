"""The cells of an experiment for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping

from evaluation.verdict import EndToEnd
from orchestrator.cell import Record
from orchestrator.profiled import BOTTLENECK, FIGURES, bottleneck_of, figures_of
from orchestrator.store.index import ALWAYS, DEVICE_FIELDS, Row


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
    row = Row.of(record)._asdict()
    return {
        **{name: row[name] for name in ALWAYS},
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
        **{name: row[name] for name in DEVICE_FIELDS},
        **_end_to_end_fields(timing.end_to_end if timing else None),
        **dict.fromkeys(FIGURES),
        **figures_of(grade),
        BOTTLENECK: bottleneck_of(grade),
    }


def _end_to_end_fields(plain: EndToEnd | None) -> Mapping[str, object]:
    return {
        "end_to_end_low_us": plain.candidate.low_us if plain else None,
        "end_to_end_high_us": plain.candidate.high_us if plain else None,
        "reference_end_to_end_us": plain.reference.median_us if plain else None,
        "reference_end_to_end_low_us": plain.reference.low_us if plain else None,
        "reference_end_to_end_high_us": plain.reference.high_us if plain else None,
    }

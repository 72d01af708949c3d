"""Evaluations that were made on an H200, as the evaluator gave them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from evaluation.serialize import from_plain
from evaluation.verdict import Evaluation

DATA = Path(__file__).parents[1] / "data"
MEAN, GATHER = "cuda_mean_over_ranks", "cuda_gather_linear"


def on_h200(name: str) -> Evaluation:
    """The evaluation of `tests/data/candidates/<name>.py`; reference below 10 us of device time."""
    text = (DATA / "evaluations" / f"{name}.json").read_text(encoding="utf-8")
    return from_plain(Evaluation, json.loads(text))


def source_of(name: str) -> str:
    """The kernel that was judged."""
    return (DATA / "candidates" / f"{name}.py").read_text(encoding="utf-8")


def waiting(reference_us: float) -> Evaluation:
    """GATHER with this reference, as of a call that waits for the device, where the driver is silent."""
    found = on_h200(GATHER)
    assert found.timing is not None
    reference = replace(found.timing.reference, median_us=reference_us)
    return replace(found, timing=replace(found.timing, reference=reference, attested_us=None, conditions=[]))

"""Evaluations that were made on an H200, as the evaluator gave them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from agent_cell import verdict

from evaluation.serialize import from_plain
from evaluation.verdict import Evaluation, Profile, Stage

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


def saved_profile(name: str) -> Profile:
    """`matmul_fp16` is of an H200. The others have figures of the reference that no text may show: every one is made of
    sevens. `copy` and `two` are of the counters in tests/data/ncu, `counters_refused` of a driver that gives none.
    """
    text = (DATA / "profiles" / f"{name}.json").read_text(encoding="utf-8")
    return from_plain(Profile, json.loads(text))


def profiled(source: str, stage: Stage, name: str = "copy") -> Evaluation:
    """What a judge with a GPU finds, by the first word of the source as `verdict` does."""
    found = verdict(source, stage)
    if stage is not Stage.PROFILE or not found.status.correct:
        return found
    timed = on_h200(GATHER)
    return replace(timed, stage=Stage.PROFILE, profile=saved_profile(name))

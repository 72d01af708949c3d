"""The judge's last stage: an evaluation with its profile."""

from __future__ import annotations

import time
import traceback
from dataclasses import replace

import torch

from evaluation.profile.brief import without
from evaluation.profile.session import absent_on_cpu, profile_on_device
from evaluation.profile.specs import specs_of
from evaluation.profile.tools import Tools
from evaluation.verdict import Evaluation, Profile, Solution, Stage
from problems.problem import Problem


def profile(tools: Tools, problem: Problem, solution: Solution) -> Profile:
    """Of a candidate that is right; on a CPU all of it is absent."""
    if tools.settings.device != "cuda":
        return absent_on_cpu()
    return profile_on_device(tools, problem, solution, specs_of(torch.cuda.get_device_name(0)))


def profiled(tools: Tools, problem: Problem, solution: Solution, evaluation: Evaluation) -> Evaluation:
    """The same evaluation one stage on, if it is of a right candidate.

    A profile that fails is absent, with its reason.
    """
    if not evaluation.status.correct:
        return evaluation
    started = time.monotonic()
    try:
        found = profile(tools, problem, solution)
    except Exception as error:  # noqa: BLE001  whatever it is, the verdict was reached without it
        traceback.print_exc()
        found = without(f"the profile failed: {type(error).__name__}: {error}")
    wall_s = evaluation.wall_s | {"profile": round(time.monotonic() - started, 4)}
    return replace(evaluation, stage=Stage.PROFILE, profile=found, wall_s=wall_s)

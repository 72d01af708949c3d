"""The judge's last stage: an evaluation with its profile."""

from __future__ import annotations

import time
from dataclasses import replace

import torch

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
    """The same evaluation one stage on, if it is of a right candidate."""
    if not evaluation.status.correct:
        return evaluation
    started = time.monotonic()
    found = profile(tools, problem, solution)
    wall_s = evaluation.wall_s | {"profile": round(time.monotonic() - started, 4)}
    return replace(evaluation, stage=Stage.PROFILE, profile=found, wall_s=wall_s)

"""The judge's last stage, an evaluation with its profile, and what else a judge tells of the device."""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from dataclasses import replace

import torch

from evaluation.disassembly.kernel_code import Disassembly
from evaluation.disassembly.objects import disassembled
from evaluation.errors import EvaluatorError, JudgeLost
from evaluation.profile.brief import without
from evaluation.profile.rates import MeasuredRoofline
from evaluation.profile.roofline import measured_roofline
from evaluation.profile.session import absent_on_cpu, profile_on_device
from evaluation.profile.specs import specs_of
from evaluation.profile.summary import Peaks
from evaluation.profile.tools import Tools
from evaluation.verdict import Evaluation, Profile, Solution, Stage
from problems.problem import Problem


class BesideVerdicts(ABC):
    """What a judge tells beside verdicts; nothing of it is part of one."""

    _tools: Tools

    @abstractmethod
    def evaluate(self, problem: Problem, solution: Solution, stage: Stage) -> Evaluation:
        """The verdict."""

    def profile(self, problem: Problem, solution: Solution) -> Profile:
        """What a solution that is right does with the device; outside of all timing. Raises as `evaluate` does."""
        return profile(self._tools, problem, solution)

    def disassemble(self, problem: Problem, solution: Solution) -> Disassembly:
        """What its native builds hold for the GPU; they are built, or found in the cache. Raises as `evaluate` does."""
        built = self.evaluate(problem, solution, Stage.BUILD)
        return disassembled(built, self._tools.builder.library, self._tools.settings.limits)

    def roofline(self) -> MeasuredRoofline:
        """What this GPU was measured to do at most, now or before. Raises EvaluatorError, on a CPU always."""
        if self._tools.settings.device != "cuda":
            raise EvaluatorError(
                "a roofline is measured on a GPU; set evaluation.device=cuda on a machine that has one"
            )
        return measured_roofline(self._tools.cache_dir)


def profile(tools: Tools, problem: Problem, solution: Solution) -> Profile:
    """Of a candidate that is right; on a CPU all of it is absent."""
    if tools.settings.device != "cuda":
        return absent_on_cpu()
    peaks, source = _peaks(tools)
    found = profile_on_device(tools, problem, solution, peaks)
    return replace(found, words=found.words | {"peaks": source})


def _peaks(tools: Tools) -> tuple[Peaks | None, str]:
    """The vendor's where they are known, else measured ones, else none; and whose word they are."""
    specs = specs_of(torch.cuda.get_device_name(0))
    if specs is not None:
        return specs, f"vendor: {specs.source}"
    try:
        return measured_roofline(tools.cache_dir), "measured on this GPU, which is not in the table of vendors' figures"
    except JudgeLost:
        raise
    except EvaluatorError as error:
        return None, f"none: the GPU is not in the table of vendors' figures, and measuring failed: {error}"[:300]


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

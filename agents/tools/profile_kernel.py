"""profile_kernel: why a right kernel takes the time that it takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agents.protocols import ToolResult
from agents.tools.kernels import KERNEL_PARAMETERS, Kernels
from agents.tools.profile_text import Earlier, profile_lines
from agents.tools.result_text import UNSETTLED, built, failure_text, needs_gpu_text, runtime_lines
from agents.trajectory import KERNEL_ID_CHARS
from evaluation.verdict import Evaluation, Stage, Status


class ProfileKernel:
    """Goes on until Stage.PROFILE, on a device."""

    name = "profile_kernel"
    description = (
        "Build a kernel, check it against the reference, time it, and measure one call with hardware counters: what "
        "limits it (memory, compute, launch or latency), time by kernel, occupancy, caches, what warps wait for, and "
        "what changed since the session's last profile. Takes a minute and a correct kernel, which counts as a result "
        "of the session even if it is never submitted. Nothing about the reference is revealed."
    )
    parameters = KERNEL_PARAMETERS

    def __init__(self, kernels: Kernels, draws: int, device: str) -> None:
        self._kernels = kernels
        self._draws = draws
        self._device = device

    def call(self, arguments: dict[str, Any]) -> ToolResult:
        """See the class."""
        if self._device != "cuda":
            return ToolResult(text=needs_gpu_text(self.name), ok=False)
        last = self._kernels.last_profile()
        earlier = None if last is None else Earlier(last[0][:KERNEL_ID_CHARS], last[1])
        found = self._kernels.judge(
            arguments, Stage.PROFILE, lambda evaluation: profile_text(evaluation, self._draws, earlier)
        )
        profile = found.evaluation.profile if found.evaluation else None
        return replace(found, ok=profile is not None and bool(profile.kernels))


def profile_text(evaluation: Evaluation, draws: int, earlier: Earlier | None) -> str:
    """Result of profile_kernel; `draws` is the count that the judge was asked for."""
    name = ProfileKernel.name
    if not built(evaluation) or not evaluation.status.correct:
        return failure_text(evaluation, draws, name)
    profile = evaluation.profile
    if profile is None:
        raise ValueError("a right kernel that was to be profiled has no profile")
    if not profile.kernels:
        seen = (profile.absent[key] for key in ("kernel_launches", "sol") if key in profile.absent)
        return f"{name} FAILED: no kernel was seen: {next(seen, 'the reason is not known')}."
    timed = runtime_lines(evaluation.timing)[:1] if evaluation.timing else []
    if evaluation.status is Status.UNSTABLE_TIMING:
        timed.append(UNSETTLED)
    return "\n".join([f"{name} PASSED: profiling complete.", *timed, *profile_lines(profile, earlier)])

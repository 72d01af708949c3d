"""submit_kernel: correctness and timing; ends the run once there is a verdict on the values."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from agents.protocols import ToolResult
from agents.tools.kernels import KERNEL_PARAMETERS, Kernels
from agents.tools.result_text import built, submit_text
from evaluation.verdict import Stage


class SubmitKernel:
    """The last call of a session, possible whatever else is spent."""

    name = "submit_kernel"
    description = (
        "Build a kernel, check it against the reference, time it, and end the session. Call it once, with your best "
        "kernel. A submission that does not compile does not end the session. The reference's time is not revealed."
    )
    parameters = KERNEL_PARAMETERS

    def __init__(self, kernels: Kernels, draws: int) -> None:
        self._kernels = kernels
        self._describe = partial(submit_text, draws=draws)

    def call(self, arguments: dict[str, Any]) -> ToolResult:
        """See the class."""
        result = self._kernels.judge(arguments, Stage.TIMING, self._describe)
        return replace(result, ends_run=result.evaluation is not None and built(result.evaluation))

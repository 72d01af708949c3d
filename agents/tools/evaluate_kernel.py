"""evaluate_kernel: all that submit_kernel does, without ending the run."""

from __future__ import annotations

from functools import partial
from typing import Any

from agents.protocols import ToolResult
from agents.tools.kernels import KERNEL_PARAMETERS, Kernels
from agents.tools.result_text import submit_text
from evaluation.verdict import Stage


class EvaluateKernel:
    """How fast is it? The agents whose models answer in text have each kernel judged by it."""

    name = "evaluate_kernel"
    description = (
        "Build a kernel, check it against the reference and time it. The session goes on; a kernel that passes here "
        "counts as a result of the session even if it is never submitted. The reference's time is not revealed."
    )
    parameters = KERNEL_PARAMETERS

    def __init__(self, kernels: Kernels, draws: int) -> None:
        self._kernels = kernels
        self._describe = partial(submit_text, draws=draws, tool=self.name)

    def call(self, arguments: dict[str, Any]) -> ToolResult:
        """See the class."""
        return self._kernels.judge(arguments, Stage.TIMING, self._describe)

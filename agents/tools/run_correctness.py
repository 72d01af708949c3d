"""run_correctness: compare with the reference, without timing."""

from __future__ import annotations

from functools import partial
from typing import Any

from agents.protocols import ToolResult
from agents.tools.kernels import KERNEL_PARAMETERS, Kernels
from agents.tools.result_text import correctness_text
from evaluation.verdict import Stage


class RunCorrectness:
    """Does it compute what the reference computes?"""

    name = "run_correctness"
    description = (
        "Build a kernel and compare its outputs with the reference on freshly drawn inputs. Nothing is timed. Tells "
        "how many of the trials agreed and how large the errors are. A kernel that passes here counts as a "
        "result of the session even if it is never submitted."
    )
    parameters = KERNEL_PARAMETERS

    def __init__(self, kernels: Kernels, draws: int) -> None:
        self._kernels = kernels
        self._describe = partial(correctness_text, draws=draws)

    def call(self, arguments: dict[str, Any]) -> ToolResult:
        """See the class."""
        return self._kernels.judge(arguments, Stage.CORRECTNESS, self._describe)

"""compile_kernel: build and load only."""

from __future__ import annotations

from typing import Any

from agents.protocols import ToolResult
from agents.tools.kernels import KERNEL_PARAMETERS, Kernels
from agents.tools.result_text import compile_text
from evaluation.verdict import Stage


class CompileKernel:
    """The cheapest answer to: does it build?"""

    name = "compile_kernel"
    description = (
        "Build and load a kernel without running it. The cheapest check: use it first, and after every larger change."
    )
    parameters = KERNEL_PARAMETERS

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels

    def call(self, arguments: dict[str, Any]) -> ToolResult:
        """See the class."""
        return self._kernels.judge(arguments, Stage.BUILD, compile_text)

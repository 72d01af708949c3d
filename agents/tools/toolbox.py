"""From a call that a model asked for to a result that it can read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agents.budget import Budget, BudgetExceeded
from agents.protocols import ExitStatus, Tool, ToolCall, ToolResult
from agents.tools.arguments import parse_arguments
from agents.tools.kernels import ArgumentFault
from agents.tools.result_text import bounded

ALWAYS_POSSIBLE = "submit_kernel"

_LIMIT = {
    ExitStatus.TOOL_CALLS_SPENT: "Tool call",
    ExitStatus.WALL_SPENT: "Time",
    ExitStatus.GPU_SPENT: "GPU time",
    ExitStatus.BUILDS_SPENT: "Build",
}
"""What the model is told of a budget that lets no further tool run."""


class Toolbox:
    """The tools of one cell. Nothing that a model writes raises here; faults of ours pass through."""

    def __init__(self, tools: Sequence[Tool], budget: Budget, text_chars: int) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._budget = budget
        self._text_chars = text_chars

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """OpenAI function schemas, in the order of the config."""
        return [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in self._tools.values()
        ]

    def run(self, call: ToolCall) -> ToolResult:
        """Run one call; `wall_s` is set and the text is bounded."""
        started = time.monotonic()
        result = self._answer(call)
        return replace(result, text=bounded(result.text, self._text_chars), wall_s=time.monotonic() - started)

    def _answer(self, call: ToolCall) -> ToolResult:
        if call.name != ALWAYS_POSSIBLE and (refusal := self._refusal()):
            return ToolResult(text=refusal, ok=False, refused=True)
        tool = self._tools.get(call.name)
        if tool is None:
            return _failed(f"Unknown tool {call.name!r}. Available tools: {', '.join(self._tools)}")
        try:
            arguments = parse_arguments(call.arguments)
        except (ValueError, RecursionError) as error:
            return _failed(
                f"Tool call arguments could not be parsed as JSON: {error}. Send the call again with one JSON object."
            )
        try:
            return tool.call(arguments)
        except ArgumentFault as fault:
            return _failed(f"{call.name} FAILED: {fault}")

    def _refusal(self) -> str | None:
        try:
            self._budget.check_tools()
        except BudgetExceeded as spent:
            what = _LIMIT[spent.exit_status]
            return f"{what} limit reached. No further tool calls will be executed this run, except submit_kernel."
        return None


def _failed(text: str) -> ToolResult:
    return ToolResult(text=text, ok=False)

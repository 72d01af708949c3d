"""The candidates of one cell: from a tool's arguments to a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agents.protocols import ToolResult
from agents.tools.result_text import kernel_id_line
from agents.trajectory import Trajectory
from evaluation.client import Evaluates
from evaluation.disassembly.kernel_code import Disassembly
from evaluation.serialize import from_plain
from evaluation.verdict import Evaluation, Profile, Solution, Stage, Status
from problems.problem import Problem, ProblemError

KERNEL_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "kernel_code": {
            "type": "string",
            "description": "A complete Python module that defines class ModelNew; not bare C++ or CUDA source.",
        },
        "kernel_id": {
            "type": "string",
            "description": "In place of kernel_code: the id that an earlier result gave to exactly the same module.",
        },
    },
}
"""Schema of the tools that take a kernel: one of the two arguments."""


class ArgumentFault(Exception):
    """Arguments that parse but cannot be used; the message is for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """Resolves a kernel argument, keeps its source beside the trajectory, and has it judged."""

    problem: Problem
    evaluator: Evaluates
    trajectory: Trajectory
    language: str

    def judge(self, arguments: dict[str, Any], stage: Stage, describe: Callable[[Evaluation], str]) -> ToolResult:
        """Evaluate the kernel in `arguments` up to `stage`.

        Raises ArgumentFault for arguments that name no kernel, ProblemError when the problem itself is at fault.
        """
        source, sha256 = self.kept(arguments)
        evaluation = self.evaluator.evaluate(self.problem, self._solution(source), stage)
        return self._result(evaluation, describe(evaluation), sha256, ok=evaluation.status.correct)

    def disassemble(self, arguments: dict[str, Any], describe: Callable[[Disassembly], str]) -> ToolResult:
        """Build the kernel in `arguments` and take it apart. Raises as `judge` does."""
        source, sha256 = self.kept(arguments)
        found = self.evaluator.disassemble(self.problem, self._solution(source))
        return self._result(found.evaluation, describe(found), sha256, ok=not found.absent)

    def kept(self, arguments: dict[str, Any]) -> tuple[str, str]:
        """The source in `arguments` and its SHA-256, kept beside the trajectory. Raises ArgumentFault."""
        source = self._source(arguments)
        return source, self.trajectory.keep(source)

    def last_profile(self) -> tuple[str, Profile] | None:
        """SHA-256 of the kernel that the session profiled last, and its profile; None before the first."""
        for event in reversed(self.trajectory.events):
            if event["kind"] == "tool_result" and (event["result"]["evaluation"] or {}).get("profile"):
                return event["solution_sha256"], from_plain(Profile, event["result"]["evaluation"]["profile"])
        return None

    def _solution(self, source: str) -> Solution:
        return Solution(source=source, language=self.language)

    def _result(self, evaluation: Evaluation, text: str, sha256: str, *, ok: bool) -> ToolResult:
        if evaluation.status is Status.INVALID_PROBLEM:
            raise ProblemError(f"{self.problem.name} cannot be judged: {evaluation.message}")
        text = f"{text}\n{kernel_id_line(sha256)}"
        return ToolResult(text=text, ok=ok, evaluation=evaluation, solution_sha256=sha256)

    def _source(self, arguments: dict[str, Any]) -> str:
        given = {name: value for name, value in arguments.items() if name in KERNEL_PARAMETERS["properties"] and value}
        if len(given) != 1:
            raise ArgumentFault("give the kernel once, as kernel_code or as kernel_id.")
        ((name, value),) = given.items()
        if not isinstance(value, str):
            raise ArgumentFault(f"{name} must be a string.")
        source = value if name == "kernel_code" else self.trajectory.source(value)
        if source is None:
            known = ", ".join(self.trajectory.kernel_ids()) or "none so far"
            raise ArgumentFault(f"there is no kernel with id {value!r}; known ids: {known}.")
        if any("\ud800" <= character <= "\udfff" for character in source):
            raise ArgumentFault("kernel_code holds half of a surrogate pair and is not text.")
        return source

"""What a cell may spend, what it has spent, and the one place that stops it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from agents.errors import AgentConfigError, ProviderCause, ProviderError
from agents.protocols import ExitStatus, Model, Reply, ToolResult, Usage
from agents.settings import BudgetSettings
from evaluation.serialize import from_plain
from evaluation.verdict import Evaluation, Status

_DEVICE_STAGES = ("correctness", "timing", "profile")
"""Keys of Evaluation.wall_s for the seconds in which candidates have the device."""


class Interrupt(Exception):
    """Ends the run; says why."""

    def __init__(self, exit_status: ExitStatus) -> None:
        super().__init__(exit_status.value)
        self.exit_status = exit_status


class BudgetExceeded(Interrupt):
    """Nothing is left of one of the budgets."""


def _nothing_used() -> Usage:
    return Usage(prompt_tokens=0, completion_tokens=0, cached_tokens=0, reasoning_tokens=0, cost_usd=0.0)


def add_usage(one: Usage, other: Usage) -> Usage:
    """Sum field by field; a sum with something unknown in it is unknown."""
    pairs = {f.name: (getattr(one, f.name), getattr(other, f.name)) for f in fields(Usage)}
    return Usage(**{name: None if a is None or b is None else a + b for name, (a, b) in pairs.items()})


@dataclass(slots=True, kw_only=True)
class Spent:
    """Sums over the replies and results of a trajectory, so they survive whatever ends the process."""

    turns: int = 0
    tool_calls: int = 0
    usage: Usage = field(default_factory=_nothing_used)
    llm_s: float = 0.0
    tools_s: float = 0.0
    queue_s: float = 0.0
    """Part of `tools_s` that was spent waiting for the judge."""
    gpu_s: float = 0.0
    """Part of `tools_s` in which candidates ran on the device."""
    built: set[str] = field(default_factory=set)
    """Native objects that were asked of the builder: the keys of those that came about, the sources of the others."""

    def add_reply(self, reply: Reply) -> None:
        """Charge one turn."""
        self.turns += 1
        self.usage = add_usage(self.usage, reply.usage)
        self.llm_s += reply.wall_s

    def add_result(self, result: ToolResult) -> None:
        """Charge one tool call, unless it was refused."""
        self.tool_calls += not result.refused
        self.tools_s += result.wall_s
        if result.evaluation is not None:
            self.queue_s += result.evaluation.wall_s.get("queue", 0.0)
            self.gpu_s += device_s(result.evaluation)
            self.built |= _objects(result.evaluation)

    @property
    def tokens(self) -> int | None:
        """Prompt and completion tokens."""
        prompt, completion = self.usage.prompt_tokens, self.usage.completion_tokens
        return None if prompt is None or completion is None else prompt + completion

    @property
    def wall_s(self) -> float:
        """Seconds that count against the budget: answers and tools, but not standing in line for the judge."""
        return self.llm_s + self.tools_s - self.queue_s


def device_s(evaluation: Evaluation) -> float:
    """Seconds of an evaluation in which candidate and reference had the device to run on."""
    return sum(evaluation.wall_s.get(stage, 0.0) for stage in _DEVICE_STAGES)


def _objects(evaluation: Evaluation) -> set[str]:
    found = {build.key for build in evaluation.builds}
    if evaluation.status is Status.COMPILE_ERROR and "build" in evaluation.wall_s:
        found.add(f"failed {evaluation.solution_sha256}")
    return found


def spent_in(events: Iterable[dict[str, Any]]) -> Spent:
    """What the events of a trajectory add up to."""
    spent = Spent()
    for event in events:
        if event["kind"] == "reply":
            spent.add_reply(from_plain(Reply, event["reply"]))
        elif event["kind"] == "tool_result":
            spent.add_result(from_plain(ToolResult, event["result"]))
    return spent


class Budget:
    """Charged by the loop for every reply and result, replayed ones included, and asked before the next one."""

    def __init__(self, settings: BudgetSettings) -> None:
        self.settings = settings
        self.spent = Spent()

    def admit(self, model: Model) -> None:
        """Raise AgentConfigError when a limit is set on something that the model does not report."""
        if self.settings.tokens is not None and not model.counts_tokens:
            raise AgentConfigError(
                f"budget {self.settings.name!r} limits tokens, but model {model.name!r} does not state its use; "
                "set budget.tokens=null or take another model"
            )
        if self.settings.cost_usd is not None and not model.knows_cost:
            raise AgentConfigError(
                f"budget {self.settings.name!r} limits dollars, but the price of model {model.name!r} is unknown; set "
                "model.price_input_usd_per_mtok and model.price_output_usd_per_mtok, or budget.cost_usd=null"
            )

    def check(self) -> None:
        """Raise BudgetExceeded when no further turn may be asked for."""
        limits = self.settings
        for exit_status, spent, limit in (
            (ExitStatus.TURNS_SPENT, self.spent.turns, limits.turns),
            (ExitStatus.TOKENS_SPENT, self.spent.tokens, limits.tokens),
            (ExitStatus.COST_SPENT, self.spent.usage.cost_usd, limits.cost_usd),
            (ExitStatus.WALL_SPENT, self.spent.wall_s, limits.wall_s),
        ):
            if limit is None:
                continue
            if spent is None:
                raise ProviderError(
                    ProviderCause.BAD_REPLY, f"a reply did not state what it used, so {exit_status} cannot be told"
                )
            if spent >= limit:
                raise BudgetExceeded(exit_status)

    def check_tools(self) -> None:
        """Raise BudgetExceeded when no tool but submit_kernel may be run any more."""
        limits = self.settings
        for exit_status, spent, limit in (
            (ExitStatus.TOOL_CALLS_SPENT, self.spent.tool_calls, limits.tool_calls),
            (ExitStatus.WALL_SPENT, self.spent.wall_s, limits.wall_s),
            (ExitStatus.GPU_SPENT, self.spent.gpu_s, limits.gpu_s),
            (ExitStatus.BUILDS_SPENT, len(self.spent.built), limits.builds),
        ):
            if limit is not None and spent >= limit:
                raise BudgetExceeded(exit_status)

    @property
    def turns_left(self) -> int:
        """Turns that may still be asked for."""
        return max(0, self.settings.turns - self.spent.turns)

    @property
    def tool_calls_left(self) -> int | None:
        """Calls that may still be run, submit_kernel apart; None is unlimited."""
        try:
            self.check_tools()
        except BudgetExceeded:
            return 0
        limit = self.settings.tool_calls
        return None if limit is None else limit - self.spent.tool_calls

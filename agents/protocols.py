"""The three seams of an agent, and the nouns that cross them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from agents.errors import ProviderError
from evaluation.verdict import Evaluation

Message = dict[str, Any]
"""One chat message in OpenAI's form: role, content, tool_calls, tool_call_id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call that the model asked for; `arguments` is the raw JSON text, not yet trusted to parse."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one reply. Unknown is None, never 0. `reasoning_tokens` and `cached_tokens` are parts of the others."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One turn of the model."""

    text: str = ""
    reasoning: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    finish_reason: str = "stop"
    request_id: str = ""
    """The provider's own name of the request, for asking it about one."""
    model_version: str = ""
    """The model that the provider says answered."""
    wall_s: float = 0.0
    """Seconds of the request that was answered; refused ones and the waits between them are not in it."""
    requests: int = 1
    """Requests sent until one was answered."""
    echo: dict[str, Any] = field(default_factory=dict)
    """Fields that the provider wants back unchanged with this reply, such as signed thinking blocks."""
    sent: dict[str, Any] = field(default_factory=dict)
    """The sampling that the request asked for, by name: temperature, top_p, seed, max_tokens, reasoning_effort."""

    @property
    def truncated(self) -> bool:
        """Whether the provider cut the reply at its own limit."""
        return self.finish_reason == "length"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool answers: text for the model, the evaluation for the record."""

    text: str
    ok: bool
    evaluation: Evaluation | None = None
    data: dict[str, str] = field(default_factory=dict)
    """What the text says, by name, where there is no evaluation to say it."""
    wall_s: float = 0.0
    solution_sha256: str | None = None
    """The kernel that the call was about; its source is kept beside the trajectory."""
    refused: bool = False
    """Not run and not charged, because the budget for tools was spent."""
    ends_run: bool = False
    """A submission that got as far as a verdict on its values."""


class ExitStatus(StrEnum):
    """Why the agent stopped."""

    SUBMITTED = "SUBMITTED"
    TURNS_SPENT = "TURNS_SPENT"
    TOOL_CALLS_SPENT = "TOOL_CALLS_SPENT"
    TOKENS_SPENT = "TOKENS_SPENT"
    COST_SPENT = "COST_SPENT"
    WALL_SPENT = "WALL_SPENT"
    GPU_SPENT = "GPU_SPENT"
    BUILDS_SPENT = "BUILDS_SPENT"
    CONTEXT_SPENT = "CONTEXT_SPENT"
    """The conversation outgrew what the model can hold."""
    FINISHED = "FINISHED"
    """The agent has done all that its settings ask for."""
    FORMAT_ERROR = "FORMAT_ERROR"


class Model(Protocol):
    """Answers a conversation. Raises ProviderError when no answer can be had; the cell is then owed again."""

    name: str
    counts_tokens: bool
    """Whether its replies state their tokens."""
    knows_cost: bool
    """Whether its replies state their cost in dollars."""

    def query(
        self, messages: list[Message], tools: list[dict[str, Any]], tool_choice: str = "auto", sample: int = 0
    ) -> Reply:
        """Return the next reply to `messages`, given `tools` as OpenAI function schemas.

        `sample` is the number of the conversation in its cell. A provider that takes a seed gets one of its own for
        each: equal questions would otherwise have equal answers.
        """
        ...


class Permit(Protocol):
    """The right to send one request to a provider. Exactly one of its methods is called, once."""

    def settle(self, usage: Usage) -> None:
        """The request was answered: charge what the reply says it used; what it does not say is charged as feared."""
        ...

    def lost(self) -> None:
        """Nobody knows whether the provider did the work: charge all that was feared."""
        ...

    def refused(self, error: ProviderError) -> None:
        """The provider did nothing: charge nothing. After a rate limit every process waits as it asked."""
        ...


class Gate(Protocol):
    """What every request passes before it is sent: rates and money that all processes of an experiment share."""

    def admit(self, feared: Usage) -> Permit:
        """Wait until a request that uses at most `feared` may be sent. Raises ExperimentSpent when money is out."""
        ...


class Tool(Protocol):
    """Something that the model may call by name."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON schema of the arguments."""

    def call(self, arguments: dict[str, Any]) -> ToolResult:
        """Run the tool. Faults of the kernel are results; faults of ours are exceptions."""
        ...


class Agent(Protocol):
    """Solves one problem within its budget; everything it does goes through the trajectory."""

    def run(self) -> ExitStatus:
        """Work until submitted or stopped by the budget."""
        ...

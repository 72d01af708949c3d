"""Config of models, agents and budgets. A field marked `identity=False` changes nothing about the result."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

RUNTIME_ONLY = {"identity": False}

TOOL_SETS = {
    "default": ("get_gpu_specs", "compile_kernel", "run_correctness", "submit_kernel"),
    "all": (
        "get_gpu_specs",
        "ert_roofline",
        "compile_kernel",
        "run_correctness",
        "evaluate_kernel",
        "profile_kernel",
        "disassemble_kernel",
        "static_check",
        "submit_kernel",
    ),
}
"""Tools by the name of their set; `all` has those of agents.factory.TOOLS, in its order."""


def tool_set_of(names: Any) -> Any:
    """The name of the set that a list of tools is, the list itself where it is none."""
    return next((name for name, tools in TOOL_SETS.items() if names == list(tools)), names)


class ModelKind(Enum):
    """Which implementation answers. Enums match by member name in the config."""

    recorded = "recorded"
    scripted = "scripted"
    litellm = "litellm"


class ModelProtocol(Enum):
    """What is spoken with the provider."""

    chat = "chat"
    """OpenAI's chat completions; LiteLLM translates for providers that have a protocol of their own."""
    responses = "responses"
    """OpenAI's responses: reasoning comes as summaries and goes back encrypted."""


class ReasoningBack(Enum):
    """What of its reasoning a provider gets back with the conversation."""

    signed = "signed"
    """What it signed or encrypted, and nothing else."""
    text = "text"
    """The text too: some refuse a reply with tool calls that has lost its `reasoning_content`."""


class Price(Enum):
    """What a model costs."""

    listed = "listed"
    """The prices given here, else those of LiteLLM's list; a model in neither has an unknown price."""
    free = "free"
    """Nothing: a server of one's own. It must be said; LiteLLM's zeros are not believed."""


@dataclass(slots=True, kw_only=True)
class ModelSettings:
    """One model, ready to be asked. What is None is left to the provider."""

    name: str = ""
    """What tables and paths call it."""
    kind: ModelKind = ModelKind.litellm
    litellm_model: str = ""
    """LiteLLM's `provider/model`; kind=litellm only."""
    protocol: ModelProtocol = ModelProtocol.chat
    transcript: str | None = None
    """kind=recorded: folder of transcripts, one `<problem file stem>.yaml` each, relative to the checkout."""
    temperature: float | None = field(default=None, metadata={"minimum": 0})
    top_p: float | None = field(default=None, metadata={"minimum": 0})
    takes_seed: bool = False
    """Whether the provider takes `seed`: then the cell's, or one made from it, is sent. It need not repeat a reply."""
    takes_required: bool = True
    """Whether it takes tool_choice=required; where it does not, a call is asked for and not forced."""
    max_tokens: int | None = field(default=None, metadata={"minimum": 1})
    """Completion tokens that one reply may have, reasoning included."""
    uncounted_reasoning_tokens: int = field(default=0, metadata={**RUNTIME_ONLY, "minimum": 0})
    """Reasoning that one reply may have beside `max_tokens`, where the provider does not count it in; for budgets."""
    context_tokens: int | None = field(default=None, metadata={"minimum": 1})
    """Prompt and completion tokens that the model can hold; before they overflow, old messages are shortened."""
    cache_marks: bool = field(default=False, metadata=RUNTIME_ONLY)
    """Whether the provider caches only what is marked, as Anthropic does; others cache by themselves."""
    reasoning_effort: str | None = None
    reasoning_back: ReasoningBack = ReasoningBack.signed
    price: Price = Price.listed
    price_input_usd_per_mtok: float | None = field(default=None, metadata={"minimum": 0})
    """Own price; given together with the one of output, or not at all."""
    price_cached_input_usd_per_mtok: float | None = field(default=None, metadata={"minimum": 0})
    """Own price of prompt tokens that were read from the provider's cache; None is that of the others."""
    price_output_usd_per_mtok: float | None = field(default=None, metadata={"minimum": 0})
    base_url: str | None = field(default=None, metadata=RUNTIME_ONLY)
    api_key_env: str | None = field(default=None, metadata=RUNTIME_ONLY)
    """The *name* of the environment variable that holds the key."""
    request_timeout_s: float = field(default=600.0, metadata={**RUNTIME_ONLY, "minimum": 0.001})
    """Seconds that one request may take in all, until its last byte is read."""
    max_attempts: int = field(default=4, metadata={**RUNTIME_ONLY, "minimum": 1})
    """Requests sent for one reply at most, the first included."""
    requests_per_min: int | None = field(default=None, metadata={**RUNTIME_ONLY, "minimum": 1})
    """What all processes of an experiment together may send; so are the next two."""
    tokens_per_min: int | None = field(default=None, metadata={**RUNTIME_ONLY, "minimum": 1})
    """Prompt and completion tokens."""
    concurrent: int | None = field(default=None, metadata={**RUNTIME_ONLY, "minimum": 1})
    """Requests under way at one time."""


class AgentKind(Enum):
    """Which loop runs."""

    tool_loop = "tool_loop"
    single_turn = "single_turn"
    iterative = "iterative"
    best_of_n = "best_of_n"
    evolve = "evolve"
    baseline = "baseline"


@dataclass(slots=True, kw_only=True)
class BestOfNSettings:
    """kind=best_of_n only."""

    tries: int = field(default=8, metadata={"minimum": 1})
    """Conversations that know nothing of each other."""
    turns_per_try: int = field(default=1, metadata={"minimum": 1})
    """Replies in each; from the second on the model knows what came of the one before."""


@dataclass(slots=True, kw_only=True)
class EvolveSettings:
    """kind=evolve only."""

    generations: int = field(default=4, metadata={"minimum": 1})
    children: int = field(default=4, metadata={"minimum": 1})
    """Kernels asked for in each generation, each in a conversation of its own."""
    elites: int = field(default=4, metadata={"minimum": 1})
    """Kernels that may become parents: the best of all generations so far."""
    parents: int = field(default=2, metadata={"minimum": 1})
    """Kernels that a prompt shows at most."""


@dataclass(slots=True, kw_only=True)
class AgentSettings:
    """One agent."""

    name: str = ""
    kind: AgentKind = AgentKind.tool_loop
    tools: Any = field(default="default", metadata={"takes": "default, all, or a list of tools such as [a,b]"})
    """What the model may call: the name of a set, or a list; empty for agents whose models answer in text. A set's
    name becomes its list at once, so that both are the same settings; `agents.factory.check_tools` holds the type."""
    prompt: str = "default"
    """Folder under agents/prompts/ with system.md and problem.md; the hash of its files is part of the identity."""
    persona: str = "expert"
    """Who the model is told to be: a file of agents/prompts/personas/, `none` for nobody."""
    backend: str = field(default="cpp", metadata={"choices": ("cpp", "cuda", "triton")})
    """Language asked of the model: cpp, cuda or triton; chooses the worked example of the prompt."""
    tool_text_chars: int = 20_000
    """Longest tool result that the model is shown."""
    max_format_errors: int = field(default=3, metadata={"minimum": 1})
    """Replies in a row without a tool call, or without a kernel, that end a conversation as FORMAT_ERROR."""
    best_of_n: BestOfNSettings = field(default_factory=BestOfNSettings)
    evolve: EvolveSettings = field(default_factory=EvolveSettings)

    def __post_init__(self) -> None:
        if isinstance(self.tools, str) and self.tools in TOOL_SETS:
            self.tools = list(TOOL_SETS[self.tools])


@dataclass(slots=True, kw_only=True)
class BudgetSettings:
    """What one cell may spend. None is unlimited."""

    name: str = ""
    turns: int = field(default=15, metadata={"minimum": 1})
    tool_calls: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    wall_s: float | None = None
    gpu_s: float | None = None
    """Seconds in which the judge ran candidates on the device for the cell's tools."""
    builds: int | None = None
    """Native objects that the cell's candidates had compiled; the same one again does not count, a failed one does."""
    warn_turns_remaining: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """All sections that one agent is built from."""

    agent: AgentSettings
    model: ModelSettings
    budget: BudgetSettings
    seed: int = 0

"""What a request costs: the price of a model, by tiers, and what it makes of the tokens of a reply."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.errors import AgentConfigError
from agents.models.tokens import Tokens
from agents.settings import ModelSettings, Price

_MTOK = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """Dollars per token of requests with more than `above` prompt tokens."""

    input: float
    output: float
    above: int = 0
    cached: float | None = None
    """Prompt tokens read from the provider's cache; None is as `input`."""
    written: float | None = None
    """Prompt tokens written to it; None is as `input`."""
    reasoning: float | None = None
    """Completion tokens that are reasoning; None is as `output`."""

    def cost_usd(self, tokens: Tokens) -> float | None:
        """The cost of a reply; None when its tokens are unknown."""
        if tokens.prompt is None or tokens.completion is None:
            return None
        parts = (
            (tokens.cached or 0, self.cached, self.input),
            (tokens.written or 0, self.written, self.input),
            (tokens.reasoning or 0, self.reasoning, self.output),
        )
        whole = tokens.prompt * self.input + tokens.completion * self.output
        return whole + sum(count * (price - usual) for count, price, usual in parts if price is not None)

    def worst_usd(self, prompt: int, completion: int) -> float:
        """The most that so many tokens can cost."""
        input = max(self.input, self.cached or 0.0, self.written or 0.0)
        return prompt * input + completion * max(self.output, self.reasoning or 0.0)


@dataclass(frozen=True, slots=True)
class Tariff:
    """The tiers of one model, from the cheapest on."""

    tiers: tuple[Tier, ...]

    def cost_usd(self, tokens: Tokens) -> float | None:
        """What a reply costs; None when its tokens are unknown."""
        if tokens.prompt is None:
            return None
        return self._reached(tokens.prompt)[-1].cost_usd(tokens)

    def worst_usd(self, prompt: int, completion: int) -> float:
        """The most that a request of at most so many tokens can cost."""
        return max(tier.worst_usd(prompt, completion) for tier in self._reached(prompt))

    def _reached(self, prompt: int) -> list[Tier]:
        return [tier for tier in self.tiers if tier.above == 0 or prompt > tier.above]


FREE = Tariff((Tier(input=0.0, output=0.0),))


def tariff(settings: ModelSettings, listed: Mapping[str, Any]) -> Tariff | None:
    """The price that the settings give, else the one of LiteLLM's entry `listed`, else None: unknown.

    Raises AgentConfigError when half a price is given, or one beside `price: free`.
    """
    prices = settings.price_input_usd_per_mtok, settings.price_output_usd_per_mtok
    extra = settings.price_cached_input_usd_per_mtok
    if settings.price is Price.free:
        if prices != (None, None) or extra is not None:
            raise AgentConfigError(f"model {settings.name!r}: price=free and a price per token contradict each other")
        return FREE
    if prices[0] is not None and prices[1] is not None:
        cached = None if extra is None else extra / _MTOK
        return Tariff((Tier(input=prices[0] / _MTOK, output=prices[1] / _MTOK, cached=cached),))
    if prices != (None, None) or extra is not None:
        raise AgentConfigError(
            f"model {settings.name!r}: set both price_input_usd_per_mtok and price_output_usd_per_mtok, or neither"
        )
    return _listed(listed)


def _listed(entry: Mapping[str, Any]) -> Tariff | None:
    """Zero in the list means a free trial or that nobody knew; what is free is said in the settings."""
    base = _tier(entry, "", 0)
    if base is None or (base.input == 0 and base.output == 0):
        return None
    above = {
        int(found[1])
        for name in entry
        if (found := re.fullmatch(r"(?:input|output)_cost_per_token_above_(\d+)k_tokens", name)) is not None
    }
    higher = [_tier(entry, f"_above_{count}k_tokens", count * 1000, base) for count in sorted(above)]
    return Tariff((base, *(tier for tier in higher if tier is not None)))


def _tier(entry: Mapping[str, Any], suffix: str, above: int, base: Tier | None = None) -> Tier | None:
    """One tier of an entry; what it does not name is as in `base`."""
    found = entry.get(f"input_cost_per_token{suffix}"), entry.get(f"output_cost_per_token{suffix}")
    if base is None and None in found:
        return None
    default = base or Tier(input=0.0, output=0.0)
    return Tier(
        input=default.input if found[0] is None else float(found[0]),
        output=default.output if found[1] is None else float(found[1]),
        above=above,
        cached=entry.get(f"cache_read_input_token_cost{suffix}", default.cached),
        written=entry.get(f"cache_creation_input_token_cost{suffix}", default.written),
        reasoning=entry.get(f"output_cost_per_reasoning_token{suffix}", default.reasoning),
    )

"""Whether a model can be asked: one small request with a tool, and one sentence on what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from agents.errors import AgentConfigError, ProviderCause, ProviderError
from agents.models.litellm_model import LitellmModel
from agents.models.open_gate import OpenGate
from agents.protocols import Message, Reply
from agents.settings import ModelKind, ModelSettings
from orchestrator.cli.checks import Check, State
from orchestrator.config.experiment import load_models

_LONGEST_S = 60.0
_MESSAGES: list[Message] = [{"role": "user", "content": "Call the tool `ping` once, with the word hello."}]
_TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "ping",
            "description": "Says that tools work.",
            "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
        },
    }
]
_QUOTED_CHARS = 300


def check_models(overrides: list[str]) -> list[Check]:
    """One line for each model of `overrides`. Raises ConfigError."""
    return [_check(label, settings) for label, settings in load_models(overrides)]


def _check(label: str, settings: ModelSettings) -> Check:
    if settings.kind is not ModelKind.litellm:
        return Check(name=label, state=State.OK, found=f"kind={settings.kind.value} asks no provider")
    try:
        model = _model(settings)
    except AgentConfigError as error:
        return Check(name=label, state=State.MISSING, found=str(error))
    try:
        reply = model.query(_MESSAGES, _TOOLS)
    except ProviderError as error:
        return _failed(label, settings, error)
    return _answered(label, model, reply)


def _model(settings: ModelSettings) -> LitellmModel:
    hasty = replace(settings, max_attempts=1, request_timeout_s=min(settings.request_timeout_s, _LONGEST_S))
    return LitellmModel(hasty, OpenGate(), seed=0)


def _answered(label: str, model: LitellmModel, reply: Reply) -> Check:
    found = f"answers in {reply.wall_s:.1f} s as {reply.model_version or 'a model that it does not name'}"
    if not reply.tool_calls:
        advice = "agents that need tools will fail: take another model, or turn tool calls on in the server"
        return Check(name=label, state=State.WEAK, found=f"{found}, but calls no tool when told to", advice=advice)
    usage = reply.usage
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        advice = "set no budget in tokens or dollars"
        return Check(name=label, state=State.WEAK, found=f"{found}, but does not state its tokens", advice=advice)
    found += f" and calls tools; {usage.prompt_tokens} + {usage.completion_tokens} tokens"
    if model.tariff is None or usage.cost_usd is None:
        advice = "give model.price_input_usd_per_mtok and model.price_output_usd_per_mtok, or model.price=free"
        return Check(name=label, state=State.WEAK, found=f"{found}, at an unknown price", advice=advice)
    base = model.tariff.tiers[0]
    price = f"${base.input * 1e6:.2f} in and ${base.output * 1e6:.2f} out per million tokens"
    return Check(name=label, state=State.OK, found=f"{found}, ${usage.cost_usd:.6f} at {price}")


def _failed(label: str, settings: ModelSettings, error: ProviderError) -> Check:
    where = settings.base_url or "the provider"
    key = f"the key in {settings.api_key_env}" if settings.api_key_env else "a request without a key"
    http = f" (HTTP {error.status})" if error.status is not None else ""
    sentences = {
        ProviderCause.AUTH: (
            f"{key} is refused{http}",
            "give model.api_key_env the name of a variable whose key may use this model and has credit",
        ),
        ProviderCause.NOT_FOUND: (
            f"{where} does not know the model {settings.litellm_model}{http}",
            "correct model.litellm_model, or model.base_url if the address is wrong",
        ),
        ProviderCause.RATE_LIMIT: (f"the key is accepted, but {where} takes no more requests for now{http}", "wait"),
        ProviderCause.TIMEOUT: (f"{where} gave no answer in time{http}", "look whether it is up"),
        ProviderCause.OUTAGE: (f"{where} cannot be reached or fails{http}: {_quoted(error)}", "look whether it is up"),
    }
    found, advice = sentences.get(error.cause) or _refused(settings, error)
    state = State.WEAK if error.cause is ProviderCause.RATE_LIMIT else State.MISSING
    return Check(name=label, state=state, found=found, advice=advice)


def _refused(settings: ModelSettings, error: ProviderError) -> tuple[str, str]:
    """What of the request was refused: that without which the model answers."""
    for what, without, tools, advice in _without_one(settings):
        try:
            _model(without).query(_MESSAGES, tools)
        except ProviderError:
            continue
        return f"{what} refused: without it the model answers", advice
    return f"the request is refused: {_quoted(error)}", "correct what it names"


def _without_one(settings: ModelSettings) -> Iterator[tuple[str, ModelSettings, list[dict[str, Any]], str]]:
    """(what is left out, settings without it, tools, what to do if that was it)."""
    yield "the tool is", settings, [], "take a model with tool calls, or turn them on in the server"
    for name in ("reasoning_effort", "temperature", "top_p", "max_tokens"):
        value = getattr(settings, name)
        if value is not None:
            unset: dict[str, Any] = {name: None}
            yield (
                f"{name}={value} is",
                replace(settings, **unset),
                _TOOLS,
                f"set model.{name}=null, or to a value that it takes",
            )
    if settings.takes_seed:
        yield "seed is", replace(settings, takes_seed=False), _TOOLS, "set model.takes_seed=false"


def _quoted(error: ProviderError) -> str:
    return str(error)[:_QUOTED_CHARS]

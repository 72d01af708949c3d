"""Any provider, through LiteLLM: what is sent, through the gate, with retries; and the reply that comes of it."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.errors import AgentConfigError, ProviderError
from agents.models import chat, responses
from agents.models.cache_marks import marked
from agents.models.litellm_client import LitellmClient, client
from agents.models.prices import tariff
from agents.models.retry import with_retries
from agents.models.tokens import PromptBound, Tokens, tokens_of
from agents.protocols import Gate, Message, Reply, Usage
from agents.settings import ModelProtocol, ModelSettings

_REQUEST_ID_HEADERS = ("llm_provider-x-request-id", "llm_provider-request-id")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Protocol:
    arguments: Callable[[Mapping[str, Any], Sequence[Message], Sequence[dict[str, Any]]], dict[str, Any]]
    send: Callable[[LitellmClient, Mapping[str, Any], float], Any]
    answer: Callable[[ModelSettings, dict[str, Any]], chat.Answer]


_CHAT = _Protocol(arguments=chat.arguments, send=LitellmClient.chat, answer=chat.answer)
_RESPONSES = _Protocol(arguments=responses.arguments, send=LitellmClient.responses, answer=responses.answer)


class LitellmModel:
    """One model behind LiteLLM, for one cell. Raises AgentConfigError when its settings cannot be used."""

    counts_tokens = True

    def __init__(self, settings: ModelSettings, gate: Gate, seed: int | None = None) -> None:
        self.name = settings.name
        self._settings = settings
        self._gate = gate
        self._where = _where(settings)
        self._sampling = _sampling(settings, seed)
        self._client = client()
        listed = self._client.listed(settings.litellm_model)
        self.tariff = tariff(settings, listed)
        """What it costs; None is unknown."""
        self.knows_cost = self.tariff is not None
        limit = settings.max_tokens or listed.get("max_output_tokens") or settings.context_tokens
        self._most_completion = None if limit is None else limit + settings.uncounted_reasoning_tokens
        self._bound = PromptBound()
        self._protocol = _RESPONSES if settings.protocol is ModelProtocol.responses else _CHAT

    def query(
        self, messages: list[Message], tools: list[dict[str, Any]], tool_choice: str = "auto", sample: int = 0
    ) -> Reply:
        """Ask, and ask again while the provider is busy or away; every request passes the gate.

        Raises ProviderError, and ExperimentSpent when the gate lets nothing more through.
        """
        sampling = _of_sample(self._sampling, sample)
        sent = marked(messages) if self._settings.cache_marks else messages
        arguments = {**self._where, **self._protocol.arguments(sampling, sent, tools)}
        if tools:
            arguments["tool_choice"] = tool_choice if self._settings.takes_required else "auto"
        feared = self._feared(messages, tools)

        def ask(attempt: int) -> Reply:
            return self._request(arguments, feared, attempt)

        reply = with_retries(ask, self._settings.max_attempts)
        self._bound.learn(messages, tools, reply.usage)
        return replace(reply, sent=sampling)

    def _feared(self, messages: list[Message], tools: list[dict[str, Any]]) -> Usage:
        """The most that one request can use and cost; what is unknown is None."""
        prompt, completion = self._bound.of(messages, tools), self._most_completion
        worst = None
        if self.tariff is not None and completion is not None:
            worst = self.tariff.worst_usd(prompt, completion)
        return Usage(prompt_tokens=prompt, completion_tokens=completion, cost_usd=worst)

    def _request(self, arguments: dict[str, Any], feared: Usage, attempt: int) -> Reply:
        permit = self._gate.admit(feared)
        started = time.monotonic()
        try:
            response = self._protocol.send(self._client, arguments, self._settings.request_timeout_s)
        except ProviderError as error:
            if error.maybe_charged:
                permit.lost()
            else:
                permit.refused(error)
            raise
        except BaseException:
            permit.lost()
            raise
        wall_s = time.monotonic() - started
        body = response.model_dump(exclude_none=True)
        usage = self._usage(tokens_of(body.get("usage")))
        permit.settle(usage)
        return self._reply(response, body, usage, wall_s, attempt)

    def _usage(self, tokens: Tokens) -> Usage:
        return Usage(
            prompt_tokens=tokens.prompt,
            completion_tokens=tokens.completion,
            cached_tokens=tokens.cached,
            reasoning_tokens=tokens.reasoning,
            cost_usd=self.tariff.cost_usd(tokens) if self.tariff is not None else None,
        )

    def _reply(self, response: Any, body: dict[str, Any], usage: Usage, wall_s: float, requests: int) -> Reply:
        answer = self._protocol.answer(self._settings, body)
        headers = response._hidden_params.get("additional_headers") or {}
        ids = [headers[name] for name in _REQUEST_ID_HEADERS if headers.get(name)]
        provider = self._settings.litellm_model.partition("/")[0]
        return Reply(
            text=answer.text,
            reasoning=answer.reasoning,
            tool_calls=answer.tool_calls,
            usage=usage,
            finish_reason=answer.finish_reason,
            request_id=next(iter(ids), body.get("id") or ""),
            model_version=(body.get("model") or "").removeprefix(f"{provider}/"),  # LiteLLM adds it for some
            wall_s=wall_s,
            requests=requests,
            echo=answer.echo,
        )


def _where(settings: ModelSettings) -> dict[str, Any]:
    """Which model, where, and with which key."""
    if not settings.litellm_model:
        raise AgentConfigError(f"model {settings.name!r}: kind=litellm needs litellm_model=provider/model")
    where = {"model": settings.litellm_model, "api_base": settings.base_url, "api_key": _key(settings)}
    return {name: value for name, value in where.items() if value is not None}


def _key(settings: ModelSettings) -> str | None:
    if settings.api_key_env is not None:
        if key := os.environ.get(settings.api_key_env):
            return key
        raise AgentConfigError(
            f"model {settings.name!r} takes its key from the environment variable {settings.api_key_env}, which is "
            "not set; set it, to any word if the server asks for none"
        )
    # Else a provider's key from the environment would go to a server of the user's own.
    return "none" if settings.base_url is not None else None


def _sampling(settings: ModelSettings, seed: int | None) -> dict[str, Any]:
    """What every request asks for; what is None is left to the provider."""
    if settings.takes_seed and settings.protocol is ModelProtocol.responses:
        raise AgentConfigError(f"model {settings.name!r}: protocol=responses has no seed; set takes_seed=false")
    sampling = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "seed": seed if settings.takes_seed else None,
        "max_tokens": settings.max_tokens,
        "reasoning_effort": settings.reasoning_effort,
    }
    return {name: value for name, value in sampling.items() if value is not None}


def _of_sample(sampling: dict[str, Any], sample: int) -> dict[str, Any]:
    """The sampling of a cell's conversation number `sample`; the first one has the cell's own seed."""
    if sample == 0 or "seed" not in sampling:
        return dict(sampling)
    digest = hashlib.sha256(f"{sampling['seed']} {sample}".encode()).digest()
    return {**sampling, "seed": int.from_bytes(digest[:4]) % 2**31}

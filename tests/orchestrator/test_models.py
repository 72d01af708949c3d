"""Every model of conf/model/: that it composes, what it costs, and that LiteLLM sends what its file asks for."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from model_server import Ask, Fault, Http, ModelServer, Play, call, model_server, says
from watching_gate import WatchingGate

from agents.conversation import assistant_message, tool_message
from agents.models.litellm_client import client
from agents.models.litellm_model import LitellmModel
from agents.models.prices import tariff
from agents.models.tokens import Tokens
from agents.protocols import ToolResult
from agents.settings import ModelKind, ModelSettings
from orchestrator.cli.main import main
from orchestrator.config.compose import group_options
from orchestrator.config.experiment import CONF, load_models

# LiteLLM's own code and its dependencies warn about things that are not ours to mend.
pytestmark = pytest.mark.filterwarnings("default")

NEED_MORE = ("openai_compatible",)
"""Options that do not say which model they mean."""
OPTIONS = [name for name in group_options(CONF, "model") if name not in NEED_MORE]
HOSTED = [name for name in OPTIONS if name != "recorded"]
TOOLS = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}]
COMPATIBLE = ["model=openai_compatible", "model.litellm_model=openai/served"]


@functools.cache
def models() -> dict[str, ModelSettings]:
    """Every option as it is composed, which takes a second or two."""
    return dict(load_models([f"model={','.join(OPTIONS)}"]))


def test_there_are_models_of_every_provider() -> None:
    assert [name for name, settings in models().items() if settings.kind is ModelKind.litellm] == HOSTED
    providers = {models()[name].litellm_model.partition("/")[0] for name in HOSTED}
    assert providers >= {"xai", "openai", "anthropic", "gemini", "deepseek", "dashscope", "moonshot", "zai"}


@pytest.mark.parametrize("name", HOSTED)
def test_a_model_names_its_key_its_limits_and_has_a_price(name: str) -> None:
    settings = models()[name]
    listed = client().listed(settings.litellm_model)
    assert settings.api_key_env is not None and settings.api_key_env.endswith("_API_KEY")
    assert settings.max_tokens is not None and settings.context_tokens is not None
    assert tariff(settings, listed) is not None
    if listed:
        assert settings.max_tokens <= listed["max_output_tokens"]
        assert settings.context_tokens <= listed["max_input_tokens"]


def test_a_model_in_no_list_has_an_unknown_price_and_a_zero_is_not_believed() -> None:
    assert client().listed("openai/no-such-model") == {}
    assert tariff(ModelSettings(litellm_model="openai/no-such-model"), {}) is None
    listed = client().listed("zai/glm-4.5-flash")
    assert listed["input_cost_per_token"] == 0
    assert tariff(ModelSettings(litellm_model="zai/glm-4.5-flash"), listed) is None


@pytest.mark.parametrize("name", HOSTED)
def test_costs_agree_with_litellms_figure_and_stay_below_the_worst_case(name: str) -> None:
    import litellm

    model = models()[name].litellm_model
    listed = client().listed(model)
    found = tariff(models()[name], listed)
    assert found is not None
    draw = random.Random(name)
    for _ in range(20):
        prompt, completion = draw.randrange(1, 400_000), draw.randrange(1, 32_768)
        cached, reasoning = draw.randrange(prompt), draw.randrange(completion)
        usage = litellm.Usage(
            prompt_tokens=prompt,
            completion_tokens=completion,
            total_tokens=prompt + completion,
            prompt_tokens_details={"cached_tokens": cached},
            completion_tokens_details={"reasoning_tokens": reasoning},
        )
        theirs = litellm.completion_cost(litellm.ModelResponse(model=model, usage=usage), model=model)
        cost = found.cost_usd(Tokens(prompt=prompt, completion=completion, cached=cached, reasoning=reasoning))
        if "off_peak_pricing" in listed:  # what is cheaper by night is reckoned at its price by day
            assert cost is not None and cost >= theirs - 1e-12
        else:
            assert cost == pytest.approx(theirs, rel=1e-9)
        assert cost <= found.worst_usd(prompt, completion) <= found.worst_usd(prompt + 1, completion)


@pytest.mark.parametrize("name", HOSTED)
def test_a_model_is_asked_and_asked_again_after_a_tool_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that the file asks for is refused by LiteLLM, and reasoning that must go back does."""
    settings = models()[name]
    monkeypatch.setenv(settings.api_key_env or "", "sk-test")
    messages: list[dict[str, Any]] = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    spoken = says(call("f", a=1), text="answer", reasoning="why")
    with model_server([spoken, says(text="done")]) as server:
        gate = WatchingGate()
        local = replace(settings, base_url=base_url(server, settings), max_attempts=1)
        model = LitellmModel(local, gate, seed=7)
        reply = model.query(messages, TOOLS)
        result = ToolResult(text="result", ok=True)
        messages += [assistant_message(reply), tool_message(reply.tool_calls[0], result)]
        assert model.query(messages, TOOLS).text == "done"
    first, second = server.log
    assert (reply.text, reply.reasoning, reply.model_version) == ("answer", "why", "served-model-2026-01")
    assert (first.ask.turn, second.ask.turn, first.ask.cell == second.ask.cell) == (0, 1, True)
    body = json.dumps(first.ask.body)
    assert ('"seed": 7' in body) is settings.takes_seed is ("seed" in reply.sent)
    assert f": {settings.max_tokens}" in body
    if settings.reasoning_effort is not None:
        assert settings.reasoning_effort in body
    assert gate.ends == ["settle", "settle"] and reply.usage.cost_usd is not None
    sent_back = json.dumps(second.ask.messages)
    wanted = {"anthropic": "c2lnbmVk", "gemini": "c2lnbmVk", "deepseek": '"why"', "moonshot": '"why"'}
    provider = settings.litellm_model.partition("/")[0]
    assert wanted.get(provider, "result") in sent_back


def base_url(server: ModelServer, settings: ModelSettings) -> str:
    root = server.url.removesuffix("/v1")
    provider, _, name = settings.litellm_model.partition("/")
    return {"anthropic": root, "gemini": f"{root}/v1beta/models/{name}"}.get(provider, server.url)


PING = says(call("ping", word="hello"), prompt_tokens=120, completion_tokens=20)


def checked(
    capsys: pytest.CaptureFixture[str], script: Sequence[Play] | Any, *overrides: str
) -> tuple[int, dict[str, str], ModelServer]:
    with model_server(script) as server:
        code = main(["doctor", "--json", *COMPATIBLE, f"model.base_url={server.url}", *overrides])
    [check] = json.loads(capsys.readouterr().out)
    return code, check, server


def test_doctor_says_that_all_is_well_and_what_it_cost(capsys: pytest.CaptureFixture[str]) -> None:
    prices = ["model.price_input_usd_per_mtok=2", "model.price_output_usd_per_mtok=10"]
    code, check, server = checked(capsys, [PING], *prices)
    assert (code, check["state"], len(server.log)) == (0, "ok", 1)
    assert "as served-model-2026-01 and calls tools; 120 + 20 tokens, $0.000440 at $2.00 in" in check["found"]


def without(name: str, answer: Play = PING) -> Any:
    def script(ask: Ask) -> Play:
        refused = bool(ask.tools) if name == "tools" else name in ask.body
        return Fault.BAD_REQUEST_400 if refused else answer

    return script


@pytest.mark.parametrize(
    ("script", "overrides", "state", "words"),
    [
        ([PING], [], "weak", ["at an unknown price", "model.price=free"]),
        ([says(text="hello")], [], "weak", ["calls no tool when told to"]),
        ([Fault.NO_USAGE], [], "weak", ["does not state its tokens"]),
        ([Fault.AUTH_401], ["model.api_key_env=HOME"], "missing", ["the key in HOME is refused (HTTP 401)"]),
        ([PING], ["model.api_key_env=NO_SUCH_KEY"], "missing", ["NO_SUCH_KEY, which is not set"]),
        ([Fault.NOT_FOUND_404], [], "missing", ["does not know the model openai/served (HTTP 404)"]),
        ([Fault.RATE_LIMIT], [], "weak", ["takes no more requests for now (HTTP 429)"]),
        ([Fault.UNAVAILABLE_503], [], "missing", ["cannot be reached or fails (HTTP 503)"]),
        ([Fault.HANG], ["model.request_timeout_s=0.2"], "missing", ["gave no answer in time"]),
        (without("tools", says(text="hi")), [], "missing", ["the tool is refused: without it the model answers"]),
        (without("reasoning_effort"), ["model.reasoning_effort=huge"], "missing", ["reasoning_effort=huge is refused"]),
        (without("temperature"), [], "missing", ["temperature=0.7 is refused", "model.temperature=null"]),
        (without("seed"), [], "missing", ["seed is refused", "model.takes_seed=false"]),
        (
            [Http(status=400, body={"error": {"message": "no pings"}})],
            [],
            "missing",
            ["request is refused", "no pings"],
        ),
    ],
)
def test_doctor_says_in_one_sentence_what_is_wrong(
    capsys: pytest.CaptureFixture[str], script: Any, overrides: list[str], state: str, words: list[str]
) -> None:
    code, check, _ = checked(capsys, script, *overrides)
    assert (check["state"], code) == (state, 1 if state == "missing" else 0)
    said = f"{check['found']}; {check['advice']}"
    assert "\n" not in said
    for word in words:
        assert word in said


def test_doctor_looks_at_several_models_and_asks_none_without_a_key(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in HOSTED:
        monkeypatch.delenv(models()[name].api_key_env or "", raising=False)
    assert main(["doctor", "model=recorded,grok-4.3", "--out", str(tmp_path)]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("ok       recorded") and second.startswith("missing  grok-4.3")
    assert "XAI_API_KEY, which is not set" in second
    assert not list(tmp_path.iterdir())

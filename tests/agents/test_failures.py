"""Every fault of a provider, over the wire, in three protocols: its cause, how often it was sent, what is charged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from model_server import Fault, Http, Limit, Play, model_server, says
from watching_gate import WatchingGate

from agents.errors import ExperimentSpent, ProviderCause, ProviderError
from agents.models.failures import retry_after_s
from agents.models.litellm_model import LitellmModel
from agents.protocols import Reply, Usage
from agents.settings import ModelProtocol, ModelSettings

# LiteLLM's own code and its dependencies warn about things that are not ours to mend.
pytestmark = pytest.mark.filterwarnings("default")

TOOLS = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}]
MESSAGES = [{"role": "user", "content": "hi"}]
WIRES: dict[str, dict[str, Any]] = {
    "chat": {"litellm_model": "openai/served"},
    "responses": {"litellm_model": "openai/served", "protocol": ModelProtocol.responses},
    "anthropic": {"litellm_model": "anthropic/claude-opus-5", "max_tokens": 100},
}
R, AWAY, T = ProviderCause.RATE_LIMIT, ProviderCause.OUTAGE, ProviderCause.TIMEOUT
PASSING = {
    Fault.RATE_LIMIT: (R, 429, "refused"),
    Fault.RATE_LIMIT_DATE: (R, 429, "refused"),
    Fault.TIMEOUT_408: (T, 408, "lost"),
    Fault.CONFLICT_409: (AWAY, 409, "refused"),
    Fault.ERROR_500: (AWAY, 500, "refused"),
    Fault.BAD_GATEWAY_502: (AWAY, 502, "refused"),
    Fault.UNAVAILABLE_503: (AWAY, 503, "refused"),
    Fault.OVERLOADED_529: (AWAY, 529, "refused"),
    Fault.RESET: (AWAY, None, "lost"),
    Fault.HALF_BODY: (AWAY, None, "lost"),
    Fault.BAD_JSON: (AWAY, None, "lost"),
}
LASTING = {
    Fault.AUTH_401: (ProviderCause.AUTH, 401),
    Fault.FORBIDDEN_403: (ProviderCause.AUTH, 403),
    Fault.NOT_FOUND_404: (ProviderCause.NOT_FOUND, 404),
    Fault.BAD_REQUEST_400: (ProviderCause.BAD_REQUEST, 400),
    Fault.CONTEXT: (ProviderCause.CONTEXT, 400),
}


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("agents.models.retry.FIRST_WAIT_S", 0.005)
    yield


def ask(url: str, gate: WatchingGate, wire: str = "chat", **settings: Any) -> Reply:
    base_url = url.removesuffix("/v1") if wire == "anthropic" else url
    fields = {"name": "m", "base_url": base_url, "request_timeout_s": 20.0, **WIRES[wire], **settings}
    return LitellmModel(ModelSettings(**fields), gate).query(MESSAGES, TOOLS)


def failure(play: Play, wire: str = "chat", **settings: Any) -> tuple[ProviderError, int, WatchingGate]:
    """(the error, requests in the server's log, the gate)."""
    gate = WatchingGate()
    with model_server([play]) as server, pytest.raises(ProviderError) as raised:
        server.retry_after_s = 0.005
        ask(server.url, gate, wire, **settings)
    assert "\n" not in str(raised.value)
    return raised.value, len(server.log), gate


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fault", PASSING)
def test_what_may_pass_is_sent_again_and_four_attempts_are_four_requests(fault: Fault, wire: str) -> None:
    cause, status, end = PASSING[fault]
    attempts = 2 if fault is Fault.RATE_LIMIT_DATE else 4  # a date has whole seconds, so it is waited for
    error, requests, gate = failure(fault, wire, max_attempts=attempts)
    assert (error.cause, error.status, requests) == (cause, status, attempts)
    assert gate.ends == [end] * attempts


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fault", LASTING)
def test_what_will_not_pass_is_named_and_sent_once(fault: Fault, wire: str) -> None:
    error, requests, gate = failure(fault, wire)
    assert (error.cause, error.status, requests) == (*LASTING[fault], 1)
    assert gate.ends == ["refused"] and gate.permits[0].error is error


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fault", [Fault.HANG, Fault.STALL, Fault.DRIP])
def test_whatever_stalls_ends_at_the_time_limit(fault: Fault, wire: str) -> None:
    error, requests, gate = failure(fault, wire, request_timeout_s=0.3, max_attempts=1)
    assert (error.cause, requests, gate.ends) == (T, 1, ["lost"])


@pytest.mark.parametrize(
    ("code", "status", "cause"),
    [
        ("insufficient_quota", 429, ProviderCause.AUTH),
        ("model_not_found", 400, ProviderCause.NOT_FOUND),
        ("context_length_exceeded", 400, ProviderCause.CONTEXT),
        ("context_length_exceeded", 500, ProviderCause.OUTAGE),
    ],
)
def test_a_code_in_the_body_says_more_than_the_status(code: str, status: int, cause: ProviderCause) -> None:
    play = Http(status=status, body={"error": {"message": "no", "type": "t", "code": code}})
    assert failure(play, max_attempts=1)[0].cause is cause


@pytest.mark.parametrize(
    ("status", "text", "cause"),
    [
        (500, "invalid api key, maximum context length exceeded", ProviderCause.OUTAGE),
        (401, "Request timed out, rate limit, model not found", ProviderCause.AUTH),
        (402, "Insufficient balance", ProviderCause.AUTH),
        (413, "too large", ProviderCause.CONTEXT),
        (422, "invalid", ProviderCause.BAD_REQUEST),
    ],
)
def test_the_words_of_a_message_decide_nothing(status: int, text: str, cause: ProviderCause) -> None:
    play = Http(status=status, body={"error": {"message": text, "type": "t", "code": None}})
    assert failure(play, max_attempts=1)[0].cause is cause


@pytest.mark.parametrize("body", [{}, [], "null", {"error": {"message": "upstream", "code": 502}}, {"choices": None}])
def test_a_good_status_without_a_reply_is_an_outage(body: Any) -> None:
    error, requests, gate = failure(Http(body=body), max_attempts=2)
    assert (error.cause, requests) == (AWAY, 2)
    assert set(gate.ends) <= {"lost", "settle"}


@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_an_empty_reply_is_paid_and_asked_again(wire: str) -> None:
    gate = WatchingGate()
    with model_server([Fault.NO_CHOICES, says(text="here")]) as server:
        reply = ask(server.url, gate, wire)
    assert (reply.text, reply.requests, gate.ends) == ("here", 2, ["settle", "settle"])
    paid = gate.permits[0].settled
    assert paid is not None and paid.prompt_tokens == server.log[0].prompt_tokens > 0


@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_a_reply_without_usage_is_a_reply_of_unknown_use(wire: str) -> None:
    gate = WatchingGate()
    with model_server([Fault.NO_USAGE]) as server:
        reply = ask(server.url, gate, wire)
    assert reply.tool_calls and reply.usage == Usage() and gate.permits[0].settled == Usage()


def test_nobody_listening_is_an_outage_and_costs_nothing() -> None:
    gate = WatchingGate()
    with model_server() as server:
        gone = server.url
    with pytest.raises(ProviderError) as raised:
        ask(gone, gate, max_attempts=2)
    assert (raised.value.cause, gate.ends) == (AWAY, ["refused", "refused"])


def test_the_providers_wait_is_kept_to() -> None:
    for fault, least_s in ((Fault.RATE_LIMIT, 0.4), (Fault.RATE_LIMIT_DATE, 0.0)):
        with model_server([fault, says(text="hello")]) as server:
            server.retry_after_s = 0.4
            started = time.monotonic()
            reply = ask(server.url, WatchingGate())
            whole_s = time.monotonic() - started
        first, second = server.log
        assert (reply.text, reply.requests) == ("hello", 2)
        assert least_s <= second.at_s - first.at_s
        assert reply.wall_s <= whole_s - least_s  # it does not count the wait


def test_a_limit_of_the_providers_own_is_found_and_waited_for() -> None:
    with model_server(lambda _: says(text="x"), limit=Limit(requests=3, per_s=0.5)) as server:
        replies = [ask(server.url, WatchingGate()) for _ in range(5)]
    assert [reply.text for reply in replies] == ["x"] * 5
    assert sum(served.over_limit for served in server.log) >= 1
    assert sum(not served.over_limit for served in server.log) == 5


def test_what_the_gate_does_not_let_through_is_not_sent() -> None:
    class Shut:
        def admit(self, feared: Usage) -> Any:
            raise ExperimentSpent("the cap of $1.00 is reached")

    with model_server([says(text="x")]) as server:
        settings = ModelSettings(name="m", litellm_model="openai/served", base_url=server.url)
        with pytest.raises(ExperimentSpent):
            LitellmModel(settings, Shut()).query(MESSAGES, TOOLS)
    assert server.log == []


def test_retry_after_is_read_as_seconds_or_as_a_date() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert retry_after_s("1.5") == 1.5 and retry_after_s("0") == 0.0
    assert 58.0 < (retry_after_s(date) or 0.0) <= 60.0
    assert retry_after_s("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert [retry_after_s(value) for value in (None, "", "soon", "-3")] == [None] * 4

"""A provider on loopback that plays every fault a provider can have, and counts what it was asked.

    faults = Faults(rate=0.2, seed=1)
    with model_server(lambda ask: says(call("submit_kernel", kernel_code="...")), faults=faults) as server:
        ...                            # settings: litellm_model=openai/any, base_url=server.url
        server.log                     # one Served per request: cell, turn, attempt, status, fault, tokens, time
        server.most_in(60.0)           # most requests that arrived within any 60 s
        server.cost_usd(2.0, 10.0)     # what the answered ones cost at dollars per million tokens

The first argument says what to answer: a list (one item per request, the last again and again) or a function of the
`Ask`. An item is a reply (`says`), a `Fault`, or an `Http` answer written by hand. With `Faults` a share of the turns
goes wrong: which, and for how many attempts in a row, depends on (seed, cell, turn) alone, so a run can be repeated.
A cell is told by its model, its first two messages and the `seed` it sends: replicates of one cell need
`takes_seed: true` to be told apart. A turn is the number of replies in the conversation.

It speaks HTTP/1.1 with keep-alive: OpenAI's chat completions (/v1/chat/completions) and responses (/v1/responses),
Anthropic's messages (/v1/messages) and Gemini's (...:generateContent). One thread runs all of it on asyncio, at about
2,000 requests a second; the answering function runs there too, so it should be quick.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import random
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from enum import StrEnum
from typing import Any

from model_bodies import Call, Says, call, error_body, render, says

__all__ = [
    "Ask",
    "Call",
    "Fault",
    "Faults",
    "Http",
    "Limit",
    "ModelServer",
    "Says",
    "Served",
    "call",
    "model_server",
    "says",
]


class Fault(StrEnum):
    """One thing that can go wrong. Those up to DRIP give no reply; those after it are replies, and are charged."""

    RATE_LIMIT = "RATE_LIMIT"
    """429 with Retry-After in seconds."""
    RATE_LIMIT_DATE = "RATE_LIMIT_DATE"
    """429 with Retry-After as a date."""
    TIMEOUT_408 = "TIMEOUT_408"
    CONFLICT_409 = "CONFLICT_409"
    ERROR_500 = "ERROR_500"
    BAD_GATEWAY_502 = "BAD_GATEWAY_502"
    UNAVAILABLE_503 = "UNAVAILABLE_503"
    OVERLOADED_529 = "OVERLOADED_529"
    AUTH_401 = "AUTH_401"
    FORBIDDEN_403 = "FORBIDDEN_403"
    NOT_FOUND_404 = "NOT_FOUND_404"
    BAD_REQUEST_400 = "BAD_REQUEST_400"
    CONTEXT = "CONTEXT"
    """400 with OpenAI's code context_length_exceeded."""
    RESET = "RESET"
    """The connection is reset (RST) before any answer."""
    HALF_BODY = "HALF_BODY"
    """Half of the announced body, then the connection is closed."""
    BAD_JSON = "BAD_JSON"
    """A whole body that does not parse."""
    NO_CHOICES = "NO_CHOICES"
    HANG = "HANG"
    """Nothing at all, until the client goes away."""
    STALL = "STALL"
    """Half of the body, then nothing."""
    DRIP = "DRIP"
    """Headers, then a space every 50 ms for ever: no single read ever waits long."""
    NO_USAGE = "NO_USAGE"
    TRUNCATED = "TRUNCATED"
    """Cut at the token limit, before any tool call."""
    NO_TOOL_CALL = "NO_TOOL_CALL"
    UNKNOWN_TOOL = "UNKNOWN_TOOL"
    BAD_ARGUMENTS = "BAD_ARGUMENTS"
    """Arguments that are cut in the middle."""
    SEVERAL_CALLS = "SEVERAL_CALLS"
    """The call of the reply, twice."""

    @property
    def replies(self) -> bool:
        """Whether a reply is given and charged."""
        return self in _REPLIES


_REPLIES = (
    Fault.NO_USAGE,
    Fault.TRUNCATED,
    Fault.NO_TOOL_CALL,
    Fault.UNKNOWN_TOOL,
    Fault.BAD_ARGUMENTS,
    Fault.SEVERAL_CALLS,
)
_STATUS = {
    Fault.RATE_LIMIT: 429,
    Fault.RATE_LIMIT_DATE: 429,
    Fault.TIMEOUT_408: 408,
    Fault.CONFLICT_409: 409,
    Fault.ERROR_500: 500,
    Fault.BAD_GATEWAY_502: 502,
    Fault.UNAVAILABLE_503: 503,
    Fault.OVERLOADED_529: 529,
    Fault.AUTH_401: 401,
    Fault.FORBIDDEN_403: 403,
    Fault.NOT_FOUND_404: 404,
    Fault.BAD_REQUEST_400: 400,
    Fault.CONTEXT: 400,
}
_PASSING = (
    Fault.RATE_LIMIT,
    Fault.RATE_LIMIT_DATE,
    Fault.TIMEOUT_408,
    Fault.CONFLICT_409,
    Fault.ERROR_500,
    Fault.BAD_GATEWAY_502,
    Fault.UNAVAILABLE_503,
    Fault.OVERLOADED_529,
    Fault.RESET,
    Fault.HALF_BODY,
    Fault.BAD_JSON,
    Fault.NO_CHOICES,
)
"""Quick ones that another attempt gets over."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One request."""

    cell: str
    """12 hex digits of (model, seed, first two messages)."""
    turn: int
    """Replies in the conversation."""
    attempt: int
    """Requests for this cell and turn before this one."""
    number: int
    """Requests of any kind before this one."""
    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    """Names in lower case."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """`messages` of chat completions, `input` of responses, `contents` of Gemini's."""
        return self.body.get("messages") or self.body.get("input") or self.body.get("contents") or []

    @property
    def tools(self) -> list[str]:
        """Names of the tools offered, in order."""
        return [tool.get("function", tool).get("name", "") for tool in self.body.get("tools") or []]

    @property
    def max_tokens(self) -> int | None:
        """The limit of the reply, however the protocol calls it."""
        names = ("max_tokens", "max_completion_tokens", "max_output_tokens")
        return next((self.body[name] for name in names if self.body.get(name)), None)


@dataclass(frozen=True, kw_only=True)
class Http:
    """An answer by hand; `body` is sent as JSON, or as it stands when it is bytes."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


Play = Says | Fault | Http
Script = Sequence[Play] | Callable[[Ask], Play]


@dataclass(frozen=True, kw_only=True)
class Faults:
    """A share of the turns goes wrong, in a way that depends on (seed, cell, turn) alone."""

    rate: float
    seed: int = 0
    kinds: Sequence[Fault] = (*_PASSING, *_REPLIES)
    burst: int = 1
    """Attempts in a row that a fault without reply lasts at most; drawn from 1 to this."""

    def of(self, ask: Ask) -> Fault | None:
        """What goes wrong with this request."""
        drawn = random.Random(f"{self.seed}/{ask.cell}/{ask.turn}")
        if drawn.random() >= self.rate:
            return None
        fault = drawn.choice(self.kinds)
        lasts = 1 if fault.replies else drawn.randint(1, self.burst)
        return fault if ask.attempt < lasts else None


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The provider's own: more than `requests` within `per_s` seconds are refused with 429 and Retry-After."""

    requests: int
    per_s: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Served:
    """One line of the log. `status` is None when no answer was finished."""

    ask: Ask
    at_s: float
    """time.monotonic() when the request was read."""
    status: int | None
    fault: Fault | None = None
    over_limit: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """What the provider charges: also when the reply did not say so or did not arrive whole; 0 for refusals."""

    @property
    def replied(self) -> bool:
        """Whether the client got a reply that it has to pay."""
        return self.status == 200 and (self.fault is None or self.fault.replies)


class ModelServer:
    """See the module. Everything public may be read while it runs."""

    def __init__(self, script: Script, faults: Faults | None, limit: Limit | None) -> None:
        self.url = ""
        self.script = script
        self.faults = faults
        self.limit = limit
        self.latency_s = 0.0
        self.together = 0
        """Nothing is answered before so many requests have come."""
        """Before every answer."""
        self.retry_after_s = 1.0
        """What a 429 says; whole seconds unless it is below one."""
        self.keep_bodies = True
        """Set to False for thousands of requests: then the log's asks have no messages."""
        self.log: list[Served] = []
        self._seen: Counter[tuple[str, int]] = Counter()
        self._number = 0
        self._recent: deque[float] = deque()

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The bodies, in order of arrival."""
        return [served.ask.body for served in self.log]

    def most_in(self, window_s: float) -> int:
        """Most requests that arrived within any window of this length."""
        times = sorted(served.at_s for served in self.log)
        first, most = 0, 0
        for last, at_s in enumerate(times):
            while at_s - times[first] > window_s:
                first += 1
            most = max(most, last - first + 1)
        return most

    def cost_usd(self, input_usd_per_mtok: float, output_usd_per_mtok: float) -> float:
        """What the provider charges for all of the log."""
        prompt = sum(served.prompt_tokens for served in self.log)
        completion = sum(served.completion_tokens for served in self.log)
        return (prompt * input_usd_per_mtok + completion * output_usd_per_mtok) / 1e6

    def paid_twice(self) -> list[tuple[str, int]]:
        """(cell, turn) of every turn that was answered with a whole reply more than once."""
        replies = Counter((served.ask.cell, served.ask.turn) for served in self.log if served.replied)
        return [position for position, count in replies.items() if count > 1]

    def _ask(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Ask:
        cell, turn = _position(body)
        attempt = self._seen[cell, turn]
        self._seen[cell, turn] += 1
        number, self._number = self._number, self._number + 1
        return Ask(cell=cell, turn=turn, attempt=attempt, number=number, path=path, body=body, headers=headers)

    def _over_limit(self, now_s: float) -> float | None:
        """Seconds until a place is free; None when there is one."""
        if self.limit is None:
            return None
        while self._recent and now_s - self._recent[0] >= self.limit.per_s:
            self._recent.popleft()
        if len(self._recent) >= self.limit.requests:
            return self.limit.per_s - (now_s - self._recent[0])
        self._recent.append(now_s)
        return None

    def _play(self, ask: Ask) -> tuple[Play, Fault | None]:
        if self.faults is not None and (fault := self.faults.of(ask)) is not None:
            return (_spoilt(self._scripted(ask), fault) if fault.replies else fault), fault
        play = self._scripted(ask)
        if isinstance(play, Fault):
            named = says(call(ask.tools[0] if ask.tools else "no_tool"))
            return (_spoilt(named, play) if play.replies else play), play
        return play, None

    def _scripted(self, ask: Ask) -> Play:
        if callable(self.script):
            return self.script(ask)
        return self.script[min(ask.number, len(self.script) - 1)]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            while (request := await _read(reader)) is not None:
                await self._answer(*request, reader, writer)
                if writer.is_closing():
                    return
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or the server is being stopped
        finally:
            writer.close()

    async def _answer(
        self, path: str, headers: dict[str, str], body: dict[str, Any], reader: Any, writer: asyncio.StreamWriter
    ) -> None:
        at_s = time.monotonic()
        ask = self._ask(path, headers, body)
        wait_s = self._over_limit(at_s)
        play, fault = (Fault.RATE_LIMIT, None) if wait_s is not None else self._play(ask)
        tokens, http = self._http(ask, play, wait_s)
        kept = ask if self.keep_bodies else replace(ask, body={})
        self.log.append(
            Served(
                ask=kept,
                at_s=at_s,
                status=http.status if http is not None else None,
                fault=fault,
                over_limit=wait_s is not None,
                prompt_tokens=tokens[0],
                completion_tokens=tokens[1],
            )
        )
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        while len(self.log) < self.together:
            await asyncio.sleep(0.01)
        if http is not None:
            await _send(writer, http)
        else:
            assert isinstance(play, Fault)
            await _break(play, ask, reader, writer)

    def _http(self, ask: Ask, play: Play, wait_s: float | None) -> tuple[tuple[int, int], Http | None]:
        """((prompt, completion) tokens to pay, the answer), None for an answer that is never finished."""
        if isinstance(play, Http):
            return (0, 0), play
        if isinstance(play, Says):
            tokens, body = render(play, ask)
            return tokens, Http(body=body, headers={"x-request-id": f"req-{ask.number}"})
        if play in _STATUS:
            after_s = wait_s if wait_s is not None else self.retry_after_s
            return (0, 0), Http(
                status=_STATUS[play], body=error_body(_STATUS[play], play.value), headers=_retry_after(play, after_s)
            )
        tokens, body = render(says(text="half of this"), ask)
        if play is Fault.BAD_JSON:
            return tokens, Http(body=b'{"id": "chatcmpl-1", "choices": [{"index": 0, ')
        if play is Fault.NO_CHOICES:
            empty = "output" if "output" in body else "content" if "content" in body else "choices"
            return tokens, Http(body={**body, empty: []})
        return (tokens if play in (Fault.HALF_BODY, Fault.STALL) else (0, 0)), None


def _position(body: dict[str, Any]) -> tuple[str, int]:
    """(cell, turn) of a conversation, in any of the protocols."""
    messages = body.get("messages") or body.get("input") or body.get("contents") or []
    ours = [_is_reply(message) for message in messages]
    turn = sum(reply and not before for before, reply in zip([False, *ours], ours, strict=False))
    opening = messages[: ours.index(True)] if True in ours else messages
    key = json.dumps([body.get("model"), body.get("seed"), body.get("system"), opening[:2]], sort_keys=True)
    return hashlib.sha256(key.encode()).hexdigest()[:12], turn


def _is_reply(message: dict[str, Any]) -> bool:
    return message.get("role") in ("assistant", "model") or message.get("type") in ("function_call", "reasoning")


def _spoilt(play: Play, fault: Fault) -> Play:
    if not isinstance(play, Says):
        return play
    if fault is Fault.NO_USAGE:
        return replace(play, states_usage=False)
    if fault is Fault.TRUNCATED:
        return replace(play, text=play.text or "Let me th", calls=(), finish="length")
    if fault is Fault.NO_TOOL_CALL:
        return replace(play, text=play.text or "Let me think about this.", calls=())
    if fault is Fault.UNKNOWN_TOOL:
        return replace(play, calls=tuple(replace(one, name="no_such_tool") for one in play.calls))
    if fault is Fault.BAD_ARGUMENTS:
        return replace(play, calls=tuple(replace(one, arguments='{"kernel_code": "impo') for one in play.calls))
    return replace(play, calls=play.calls * 2)


def _retry_after(fault: Fault, seconds: float) -> dict[str, str]:
    if fault is Fault.RATE_LIMIT:
        return {"Retry-After": f"{seconds:.3f}" if seconds < 1 else str(math.ceil(seconds))}
    if fault is Fault.RATE_LIMIT_DATE:
        return {"Retry-After": format_datetime(datetime.now(UTC) + timedelta(seconds=math.ceil(seconds)), usegmt=True)}
    return {}


async def _read(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], dict[str, Any]] | None:
    """(path, headers, body) of the next request; None when the client has closed."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    data = await reader.readexactly(int(headers.get("content-length", "0")))
    return head[0].split(" ")[1].partition("?")[0], headers, json.loads(data) if data else {}


async def _send(writer: asyncio.StreamWriter, http: Http) -> None:
    data = http.body if isinstance(http.body, bytes) else json.dumps(http.body).encode()
    writer.write(_head(http.status, len(data), http.headers) + data)
    await writer.drain()


def _head(status: int, length: int, headers: dict[str, str] | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status} x", "Content-Type: application/json", f"Content-Length: {length}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode()


async def _break(fault: Fault, ask: Ask, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Play a fault that never finishes its answer."""
    data = json.dumps(render(says(text="half of this"), ask)[1]).encode()
    if fault is Fault.RESET:
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing sends RST, not FIN
        writer.transport.abort()
        return
    if fault in (Fault.HALF_BODY, Fault.STALL):
        writer.write(_head(200, len(data)) + data[: len(data) // 2])
        await writer.drain()
    if fault is Fault.DRIP:
        writer.write(_head(200, 1_000_000))
        while not reader.at_eof():
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.05)
    elif fault is not Fault.HALF_BODY:
        await reader.read()  # until the client goes away
    writer.close()


@contextmanager
def model_server(
    script: Script = (),
    *,
    faults: Faults | None = None,
    limit: Limit | None = None,
    latency_s: float = 0.0,
    keep_bodies: bool = True,
) -> Iterator[ModelServer]:
    """A server in a thread of this process, on a free port of 127.0.0.1; see the module."""
    server = ModelServer(script, faults, limit)
    server.latency_s, server.keep_bodies = latency_s, keep_bodies
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="model-server", daemon=True)
    thread.start()
    listening = asyncio.run_coroutine_threadsafe(
        asyncio.start_server(server.serve, "127.0.0.1", 0, limit=2**26, backlog=1024), loop
    ).result()
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(_stop(listening), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _stop(listening: asyncio.Server) -> None:
    listening.close()
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)

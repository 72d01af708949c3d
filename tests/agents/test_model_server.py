"""The provider of the tests: what it plays depends on (seed, cell, turn) alone, and its log is complete."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from typing import Any

import pytest
from model_server import Fault, Faults, Limit, ModelServer, call, model_server, says


def post(server: ModelServer, connection: http.client.HTTPConnection | None = None, **body: Any) -> int | None:
    """The status that comes; None when the connection is lost."""
    own = connection or http.client.HTTPConnection(server.url.split("/")[2], timeout=60)
    try:
        own.request("POST", "/v1/chat/completions", json.dumps({"model": "m", **body}))
        with own.getresponse() as response:
            response.read()
            return response.status
    except (ConnectionError, http.client.HTTPException):
        own.close()
        return None
    finally:
        if connection is None:
            own.close()


def conversation(seed: int, turn: int) -> dict[str, Any]:
    rounds = [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}] * turn
    return {"seed": seed, "messages": [{"role": "user", "content": "opening"}, *rounds]}


def played(fault_seed: int, order: list[int]) -> dict[tuple[int, int], list[Fault | None]]:
    faults = Faults(rate=0.4, seed=fault_seed, burst=2)
    with model_server(lambda _: says(call("f")), faults=faults) as server:
        for seed in order:
            for turn in range(4):
                for _ in range(3):
                    post(server, **conversation(seed, turn))
    found: dict[tuple[int, int], list[Fault | None]] = {}
    for served in server.log:
        found.setdefault((served.ask.body["seed"], served.ask.turn), []).append(served.fault)
    return found


def test_faults_depend_on_seed_cell_and_turn_and_not_on_the_order() -> None:
    first = played(1, list(range(12)))
    assert first == played(1, list(range(11, -1, -1)))
    assert first != played(2, list(range(12)))
    kinds = Counter(fault for faults in first.values() for fault in faults if fault is not None)
    assert len(kinds) > 5
    for faults in first.values():
        assert faults[2] is None or faults[2].replies  # a burst of 2 is over


def test_a_limit_lets_no_more_through_than_it_says_and_the_log_counts_them() -> None:
    statuses: list[int | None] = []

    def client(seed: int) -> None:
        statuses.extend(post(server, **conversation(seed, turn)) for turn in range(10))

    with model_server([says(text="x", prompt_tokens=1000, completion_tokens=10)], limit=Limit(requests=25)) as server:
        threads = [threading.Thread(target=client, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert Counter(statuses) == {200: 25, 429: 15}
    assert (len(server.log), sum(served.over_limit for served in server.log), server.most_in(60.0)) == (40, 15, 40)
    assert server.cost_usd(1.0, 100.0) == pytest.approx(25 * (1000 * 1.0 + 10 * 100.0) / 1e6)


def test_a_turn_that_was_answered_twice_is_told() -> None:
    with model_server([says(text="x"), says(text="x"), Fault.ERROR_500, says(text="x")]) as server:
        for turn in (0, 1, 2, 1):
            post(server, **conversation(5, turn))
    assert [turn for _, turn in server.paid_twice()] == [1]


def test_connections_are_kept_and_many_requests_are_quick() -> None:
    with model_server(lambda _: says(text="x"), keep_bodies=False) as server:
        connection = http.client.HTTPConnection(server.url.split("/")[2], timeout=60)
        for turn in range(300):
            assert post(server, connection, **conversation(turn, 0)) == 200
        connection.close()
    assert len(server.log) == 300 and server.requests == [{}] * 300
    assert server.log[-1].at_s - server.log[0].at_s < 10.0

"""Cells whose ends a script decides, asked of a provider at fault; and what must then be in their records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from finished import journaled_replies
from model_server import Ask, Fault, ModelServer, Play, Served, call, says

from agents.protocols import ExitStatus
from orchestrator.cell import Cell
from orchestrator.store.store import Store

TURNS = 3
CONTEXT_TURN = 1
"""The turn at which some cells' conversations are too long for the provider."""
FORMAT_ERRORS = 2
"""Replies in a row without a tool call that end a cell."""
PRICE = (1.0, 10.0)
"""Dollars per million tokens of prompts and of completions."""
MAX_TOKENS = 1000
_NO_CALL = (Fault.NO_TOOL_CALL, Fault.TRUNCATED)


def play(ask: Ask) -> Play:
    """By the cell's seed: one in ten never calls a tool, one in ten is told that it is too long, the others go on.

    No reply needs a judge, and hardly two of them count the same tokens.
    """
    seed = ask.body["seed"]
    tokens = {"completion_tokens": 10 + ask.number % (MAX_TOKENS - 100)}
    if _talks(seed):
        return says(text="Let me think.", **tokens)
    if _grows(seed) and ask.turn == CONTEXT_TURN:
        return Fault.CONTEXT
    return says(call("get_gpu_specs"), **tokens)


def overrides(url: str, cells: int, *more: str) -> list[str]:
    """What `kernelsweep run` is told, to have so many cells asked of the server."""
    return [
        "name=faulty",
        "problem=level1/24_row_softmax",
        "model=openai_compatible",
        "model.name=served",
        "model.litellm_model=openai/served",
        f"model.base_url={url}",
        f"model.price_input_usd_per_mtok={PRICE[0]}",
        f"model.price_output_usd_per_mtok={PRICE[1]}",
        f"model.max_tokens={MAX_TOKENS}",
        "model.takes_seed=true",
        "agent=tool_loop",
        f"agent.max_format_errors={FORMAT_ERRORS}",
        f"budget.turns={TURNS}",
        f"seed=range(0,{cells})",
        "tracking=none",
        *more,
    ]


def wrong(store: Store, cells: Mapping[str, Cell], server: ModelServer) -> list[str]:
    """A sentence for each cell whose record is not what the server's log says; none if all is well."""
    return [f"{uid}: {why}" for uid, cell in cells.items() for why in _faults_of(store, uid, cell.seed, server)]


def answered(server: ModelServer) -> dict[str, Served]:
    """The replies that the server gave whole, by their ids."""
    return {f"req-{served.ask.number}": served for served in server.log if served.replied}


def paid_for_nothing(server: ModelServer) -> int:
    """Answers with a usage and without a reply, which are charged and in no journal."""
    return sum(served.fault is Fault.NO_CHOICES and served.status == 200 for served in server.log)


def _talks(seed: int) -> bool:
    return seed % 10 == 7


def _grows(seed: int) -> bool:
    return seed % 10 == 8


def _faults_of(store: Store, uid: str, seed: int, server: ModelServer) -> Iterator[str]:
    record = store.read_record(uid)
    if record is None:
        yield "no record"
        return
    given = answered(server)
    served = [given.get(reply["request_id"]) for reply in journaled_replies(store, [uid])]
    mine = [one for one in served if one is not None and one.ask.body["seed"] == seed]
    if len(mine) != len(served) or [one.ask.turn for one in mine] != list(range(len(mine))):
        yield "its journal has replies that were not given to it, in this order"
        return
    found = {
        "exit_status": record.exit_status,
        "turns": record.turns,
        "tool_calls": record.tool_calls,
        "truncated": record.truncated,
        "prompt_tokens": record.usage.prompt_tokens,
        "completion_tokens": record.usage.completion_tokens,
        "cost_usd": record.usage.cost_usd,
    }
    expected = _expected(seed, mine)
    if found != expected:
        yield f"{found} instead of {expected}"


def _expected(seed: int, served: list[Served]) -> dict[str, Any]:
    """What the record of a cell must say that got these replies."""
    errors, calls = 0, 0
    for one in served:
        talked = _talks(seed) or one.fault in _NO_CALL
        errors = errors + 1 if talked else 0
        calls += 0 if talked else 2 if one.fault is Fault.SEVERAL_CALLS else 1
    exit_status = ExitStatus.TURNS_SPENT if len(served) == TURNS else None
    if errors == FORMAT_ERRORS:
        exit_status = ExitStatus.FORMAT_ERROR
    elif _grows(seed) and len(served) == CONTEXT_TURN:
        exit_status = ExitStatus.CONTEXT_SPENT
    stated = all(one.fault is not Fault.NO_USAGE for one in served)
    prompt = sum(one.prompt_tokens for one in served)
    completion = sum(one.completion_tokens for one in served)
    return {
        "exit_status": exit_status,
        "turns": len(served),
        "tool_calls": calls,
        "truncated": any(one.fault is Fault.TRUNCATED for one in served),
        "prompt_tokens": prompt if stated else None,
        "completion_tokens": completion if stated else None,
        "cost_usd": pytest.approx((prompt * PRICE[0] + completion * PRICE[1]) / 1e6) if stated else None,
    }

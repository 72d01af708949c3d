"""Whatever an agent was doing when its process died, the next one goes on there: nothing is paid for twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_cell import Cell, call, says
from text_replies import BRED, EVOLVE, find, in_turn, writes

from agents.errors import ProviderCause, ProviderError
from agents.protocols import Agent, Message, Reply
from agents.requests import requests_sent
from agents.settings import AgentKind, BestOfNSettings, ModelSettings
from agents.trajectory import Trajectory

LONG = "good\n" + "# a comment\n" * 200
Start = Callable[[Cell, Trajectory], Agent]

SESSION = [
    says(call("compile_kernel", kernel_code="broken"), call("evaluate_kernel", kernel_code=LONG, id="d")),
    says(),
    says(call("run_correctness", kernel_code="wrong"), call("run_correctness", kernel_code=f"{LONG}2", id="d")),
    says(call("submit_kernel", kernel_code="broken")),
    says(call("submit_kernel", kernel_code="good")),
]
TOO_LONG = [writes("wrong"), ProviderError(ProviderCause.CONTEXT, "too long"), writes("slow"), writes("fast")]
REFINED = [writes(LONG), says(text="hm"), writes("wrong"), writes(f"{LONG}2"), writes("slow"), writes("fast")]


def text(kind: AgentKind, replies: list[Reply | Exception], **settings: Any) -> Start:
    return lambda cell, trajectory: cell.text(kind, in_turn(replies, trajectory), trajectory, **settings)


AGENTS: dict[str, tuple[Start, int]] = {
    "tool_loop": (lambda cell, trajectory: cell.loop(in_turn(SESSION, trajectory), trajectory, turns=7), 5),
    "single_turn": (text(AgentKind.single_turn, [writes("good")]), 1),
    "iterative": (text(AgentKind.iterative, REFINED, turns=6), 6),
    "iterative, its seconds spent": (text(AgentKind.iterative, REFINED, turns=9, wall_s=5.0), 3),
    "best_of_n": (
        text(AgentKind.best_of_n, REFINED, turns=9, best_of_n=BestOfNSettings(tries=3, turns_per_try=2)), 6,
    ),
    "a conversation too long": (
        text(AgentKind.best_of_n, TOO_LONG, turns=9, best_of_n=BestOfNSettings(tries=2, turns_per_try=2)), 4,
    ),
    "evolve": (text(AgentKind.evolve, BRED, turns=20, evolve=EVOLVE), 8),
}  # fmt: skip
"""Name -> (how it is started, queries that it makes)."""


CASES = [(name, None) for name in AGENTS] + [("tool_loop", 190), ("iterative", 190)]
"""(agent, the model's context): the last two cells are short of room, so that messages are shortened."""


class Killed(BaseException):
    """Stands for SIGKILL: nothing handles it."""


def story(trajectory: Trajectory) -> list[dict[str, Any]]:
    """Every event without what the clock says."""
    kept = []
    for event in trajectory.events:
        event = {key: value for key, value in event.items() if key != "t"}
        if event["kind"] == "tool_result":
            event["result"] = {**event["result"], "wall_s": None}
        kept.append(event)
    return kept


@pytest.mark.parametrize(("name", "context_tokens"), CASES)
def test_killed_after_any_event_an_agent_ends_alike_and_asks_nothing_twice(
    cell: Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, context_tokens: int | None
) -> None:
    start, queries = AGENTS[name]
    cell.judge.find = find
    cell.model_settings = ModelSettings(context_tokens=context_tokens, max_tokens=100)
    with Trajectory(tmp_path / "whole" / "trajectory.jsonl") as whole:
        exit_status = start(cell, whole).run()
        assert cell.model.queries == queries
    planned, judged = story(whole), list(cell.judge.asked)
    append = Trajectory.append
    for last in range(len(planned)):
        path = tmp_path / str(last) / "trajectory.jsonl"
        cell.judge.asked.clear()

        def append_or_die(self: Trajectory, kind: str, _last: int = last, **fields: Any) -> None:
            append(self, kind, **fields)
            if len(self.events) > _last:
                raise Killed

        monkeypatch.setattr(Trajectory, "append", append_or_die)
        with Trajectory(path) as first, pytest.raises(Killed):
            start(cell, first).run()
        asked = cell.model.queries
        monkeypatch.setattr(Trajectory, "append", append)
        with Trajectory(path) as second:
            assert start(cell, second).run() is exit_status
        assert story(second) == planned
        assert asked + cell.model.queries == queries
        assert cell.judge.asked == judged


@pytest.mark.parametrize(("name", "context_tokens"), CASES)
def test_what_was_sent_can_be_rebuilt_from_the_trajectory_to_the_letter(
    cell: Cell, trajectory: Trajectory, name: str, context_tokens: int | None
) -> None:
    cell.judge.find = find
    cell.model_settings = ModelSettings(context_tokens=context_tokens, max_tokens=100)
    agent = AGENTS[name][0](cell, trajectory)
    sent: list[tuple[list[Message], list[Any], str]] = []
    query = cell.model.query

    def listen(messages: list[Message], tools: list[Any], tool_choice: str, sample: int) -> Reply:
        sent.append((list(messages), tools, tool_choice))
        return query(messages, tools, tool_choice, sample)

    cell.model.query = listen
    agent.run()
    with Trajectory(cell.path) as read:
        rebuilt = requests_sent(read.events)
    assert [(request.messages, request.tools, request.tool_choice) for request in rebuilt.values()] == sent
    assert list(rebuilt) == list(range(len(sent)))
    shortened = any(event["replaced"] for event in read.events if event["kind"] == "request")
    assert shortened is (context_tokens is not None)

"""Cells with one conversation and with many are read alike: by records, pages and tracking."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from finished_store import OVERRIDES, REPLIES, finished_store
from sweeps import call

from agents.requests import requests_sent
from orchestrator.report.page import write_cell_page
from orchestrator.report.report import finished_records
from orchestrator.store.journal import read_events, turns
from orchestrator.tracking.projection import project

TURNS = {"tool_loop": 3, "single_turn": 1, "iterative": 3, "best_of_n": 6, "evolve": 4}
"""Replies that each agent asks for."""


@pytest.mark.parametrize("agent", OVERRIDES)
def test_turns_are_counted_over_all_conversations(tmp_path: Path, agent: str) -> None:
    store = finished_store(tmp_path, REPLIES, *OVERRIDES[agent])
    (record,) = finished_records(store)
    events = read_events(store.trajectory_path(record.uid))
    found = turns(events)
    assert [turn.number for turn in found] == list(range(TURNS[agent]))
    assert all(turn.reply is not None for turn in found) and record.turns == TURNS[agent]
    assert len(record.attempts) == sum(len(turn.calls) for turn in found) == record.tool_calls
    (view,) = project(record.cell, events, [], record, held=False)
    figures = Counter((name, step) for name, _, _, step in view.figures)
    assert max(figures.values()) == 1
    assert [step for name, step in figures if name == "turn/llm_s"] == list(range(TURNS[agent]))
    page = write_cell_page(store, record.uid).read_text(encoding="utf-8")
    for request in requests_sent(events).values():
        assert (f'<span class="tag">{request.conversation}</span>' in page) is (request.conversation != "main")


def test_the_page_shows_what_was_shortened_and_when(tmp_path: Path) -> None:
    long = "good\n" + "# a comment\n" * 400
    replies = [call("run_correctness", f"{long}{turn}") for turn in range(5)]
    for turn, reply in enumerate(replies):
        reply["usage"] = {"prompt_tokens": 5000 + 1000 * turn, "completion_tokens": 9}
    narrow = ["budget.turns=6", "model.context_tokens=8500", "model.max_tokens=1000"]
    store = finished_store(tmp_path, replies, *OVERRIDES["tool_loop"], *narrow)
    (record,) = finished_records(store)
    page = write_cell_page(store, record.uid).read_text(encoding="utf-8")
    assert "earlier messages shortened to fit into the model" in page
    assert "run_correctness {&#34;kernel_id&#34;: &#34;" in page

"""Many cells at once against a provider with every fault: each ends right, no reply is paid twice, none is lost."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest
from agent_cell import Cell
from model_server import Ask, Fault, Faults, Says, call, model_server, says
from watching_gate import WatchingGate

from agents.models.litellm_model import LitellmModel
from agents.protocols import ExitStatus
from agents.settings import ModelSettings
from agents.trajectory import Trajectory
from evaluation.verdict import Stage
from problems.problem import Problem

# LiteLLM's own code and its dependencies warn about things that are not ours to mend.
pytestmark = pytest.mark.filterwarnings("default")

CELLS = 24
FAULTS = Faults(rate=0.4, seed=11, burst=2)


def attempt(ask: Ask) -> Says:
    """Four turns: look, compile, compile, submit; a turn that went wrong is made up for at the end."""
    if ask.turn < 3:
        return says(call("compile_kernel", kernel_code=f"good {ask.turn}"), text="trying", reasoning="hm")
    return says(call("submit_kernel", kernel_code="good"), text="done")


def test_many_cells_with_two_fifths_of_the_turns_at_fault(
    tmp_path: Path, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.models.retry.FIRST_WAIT_S", 0.01)
    cells = [Cell(tmp_path / str(seed), problem) for seed in range(CELLS)]
    gates = [WatchingGate() for _ in cells]
    ended: dict[int, ExitStatus] = {}
    replies: dict[int, int] = {}

    def run(seed: int) -> None:
        settings = ModelSettings(name="m", litellm_model="openai/served", base_url=server.url, takes_seed=True)
        with Trajectory(cells[seed].path) as trajectory:
            loop = cells[seed].loop([], trajectory, turns=12)
            loop.session.model = LitellmModel(settings, gates[seed], seed)
            ended[seed] = loop.run()
            replies[seed] = sum(event["kind"] == "reply" for event in trajectory.events)

    with model_server(attempt, faults=FAULTS) as server:
        server.retry_after_s = 0.05
        threads = [threading.Thread(target=run, args=(seed,)) for seed in range(CELLS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    played = Counter(served.fault for served in server.log)
    assert len(played) > 12 and played[None] < len(server.log)
    assert ended == dict.fromkeys(range(CELLS), ExitStatus.SUBMITTED)
    assert server.paid_twice() == []
    assert all(Counter(stage for _, stage in cell.judge.asked)[Stage.TIMING] == 1 for cell in cells)
    answered = Counter(served.ask.body["seed"] for served in server.log if served.replied)
    assert answered == replies
    for seed, gate in enumerate(gates):
        mine = [served for served in server.log if served.ask.body["seed"] == seed]
        assert len(gate.permits) == len(mine)
        for permit, served in zip(gate.permits, mine, strict=True):
            assert len(permit.ends) == 1
            if served.replied and served.fault is not Fault.NO_USAGE:
                assert permit.settled is not None
                assert permit.settled.completion_tokens == served.completion_tokens

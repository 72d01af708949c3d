"""Replies of models that answer in text, and a judge that knows how fast each of their kernels is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_cell import latency, says, verdict

from agents.protocols import Message, Reply
from agents.settings import EvolveSettings
from agents.trajectory import Trajectory
from evaluation.verdict import Evaluation, Stage, Status, Timing


def code(source: str) -> str:
    return f"Here:\n\n```python\n{source}\n```\n"


def writes(source: str, **fields: Any) -> Reply:
    return says(text=code(source), **fields)


def in_turn(replies: list[Reply | Exception], trajectory: Trajectory) -> Callable[[int, list[Message]], Reply]:
    """The next of `replies`, over all conversations, whichever process asks; exceptions are raised."""

    def script(turn: int, messages: list[Message]) -> Reply:
        reply = replies[sum(event["kind"] in ("reply", "refusal") for event in trajectory.events)]
        if isinstance(reply, Exception):
            raise reply
        return reply

    return script


SPEEDUPS = {"fast": 4.0, "middling": 2.0, "slow": 0.5}


def find(source: str, stage: Stage) -> Evaluation:
    """Verdicts whose speed-up the first word of the source says."""
    word = source.split()[0]
    found = verdict("good" if word in SPEEDUPS else source, stage)
    if word not in SPEEDUPS:
        return found
    speedup = SPEEDUPS[word]
    timing = Timing(
        candidate=latency(10 / speedup),
        reference=latency(10.0),
        speedup=speedup,
        speedup_low=speedup * 0.9,
        speedup_high=speedup * 1.1,
        calls_per_block=1,
        process_pairs=1,
        clock="none",
        wall_s=0.1,
    )
    return Evaluation(status=Status.PASSED, stage=stage, correctness=found.correctness, timing=timing)


BRED = [
    writes("broken"), writes("slow"), says(text="hm"), writes("fast"),
    writes("wrong"), writes("slow"), writes("middling"), writes("fast"),
]  # fmt: skip
EVOLVE = EvolveSettings(generations=2, children=4, elites=2, parents=2)
"""Two generations of four; one of the replies holds no kernel."""

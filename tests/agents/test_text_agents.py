"""The agents whose models answer in text."""

from __future__ import annotations

import random

import pytest
from agent_cell import Cell, call, says
from text_replies import BRED, EVOLVE, code, find, in_turn, writes

from agents.conversation import kernel_in
from agents.errors import ProviderCause, ProviderError
from agents.protocols import ExitStatus, Message, Reply, ToolResult
from agents.requests import requests_sent
from agents.scaffolds.evolve import best, draw, fitness
from agents.scaffolds.text import Candidate
from agents.settings import AgentKind, BestOfNSettings
from agents.trajectory import Trajectory
from evaluation.verdict import Evaluation, Stage, Status


def judged(trajectory: Trajectory) -> list[tuple[str, str]]:
    """(tool, first word of the kernel) of every evaluation."""
    return [
        (event["name"], trajectory.source(event["solution_sha256"][:12]).split()[0])
        for event in trajectory.events
        if event["kind"] == "tool_result" and event["solution_sha256"]
    ]


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("```python\nModelNew = 1\n```", "ModelNew = 1\n"),
        ("```\na\n```\ntext\n```py\nb\n```", "b\n"),
        ("```python\nModelNew = 1\n```\nrun it:\n```bash\npython x.py\n```", "ModelNew = 1\n"),
        ("````\n```\nModelNew\n```\n````", "```\nModelNew\n```\n"),
        ("  ```python\nModelNew\n  ```", "ModelNew\n"),
        ("```python\nModelNew", "ModelNew"),
        ("no block, `ModelNew`", None),
        ("```python\n```", None),
        ("", None),
    ],
)
def test_a_kernel_is_the_last_code_block_that_defines_the_module(text: str, kernel: str | None) -> None:
    assert kernel_in(says(text=text)) == kernel


def test_a_block_that_the_provider_cut_is_no_kernel() -> None:
    assert kernel_in(says(text="```python\nModelNew", finish_reason="length")) is None
    cut = "```python\nModelNew\n```\nand better:\n```python\nclass ModelN"
    assert kernel_in(says(text=cut, finish_reason="length")) == "ModelNew\n"


def test_a_call_goes_before_a_code_block() -> None:
    reply = says(call("x"), call("submit_kernel", kernel_code="b"), text=code("a"))
    assert kernel_in(reply) == "b"


def test_a_single_turn_is_asked_once_and_its_kernel_submitted(cell: Cell, trajectory: Trajectory) -> None:
    agent = cell.text(AgentKind.single_turn, [writes("good")], trajectory, turns=9)
    assert agent.run() is ExitStatus.SUBMITTED
    assert (cell.model.queries, judged(trajectory)) == (1, [("submit_kernel", "good")])
    assert requests_sent(trajectory.events)[0].tools == []


def test_a_single_turn_may_offer_the_submission_as_a_tool(cell: Cell, trajectory: Trajectory) -> None:
    reply = says(call("submit_kernel", kernel_code="good"))
    cell.text(AgentKind.single_turn, [reply], trajectory, tools=["submit_kernel"]).run()
    assert judged(trajectory) == [("submit_kernel", "good")]
    assert [tool["function"]["name"] for tool in requests_sent(trajectory.events)[0].tools] == ["submit_kernel"]


def test_a_single_turn_without_a_kernel_is_a_format_error(cell: Cell, trajectory: Trajectory) -> None:
    assert cell.text(AgentKind.single_turn, [says()], trajectory).run() is ExitStatus.FORMAT_ERROR
    assert judged(trajectory) == []


def test_refining_tells_what_came_of_each_kernel_until_the_turns_are_spent(cell: Cell, trajectory: Trajectory) -> None:
    replies = [writes("broken"), says(text="hm"), writes("wrong"), writes("good")]
    agent = cell.text(AgentKind.iterative, replies, trajectory, turns=4)
    assert agent.run() is ExitStatus.TURNS_SPENT
    assert judged(trajectory) == [("evaluate_kernel", word) for word in ("broken", "wrong", "good")]
    sent = requests_sent(trajectory.events)[3].messages
    assert [message["role"] for message in sent] == ["system", *["user", "assistant"] * 3, "user"]
    told = [message["content"] for message in sent if message["role"] == "user"]
    assert told[1].startswith("evaluate_kernel FAILED: kernel did not compile.\nk.cpp:3: error")
    assert "You have 3 replies left." in told[1] and "had no fenced code block" in told[2]
    assert "output 0 differs" in told[3] and told[3].endswith("This is your last reply.")
    assert "7777" not in str(sent)


@pytest.mark.parametrize(
    ("limit", "exit_status", "tools"),
    [
        ({"tokens": 250}, ExitStatus.TOKENS_SPENT, ["evaluate_kernel"] * 3),
        ({"cost_usd": 0.5}, ExitStatus.COST_SPENT, ["evaluate_kernel"] * 2),
        ({"tool_calls": 2}, ExitStatus.TOOL_CALLS_SPENT, ["evaluate_kernel"] * 2),
        ({"wall_s": 5.0}, ExitStatus.WALL_SPENT, ["evaluate_kernel"] * 2 + ["submit_kernel"]),
    ],
)
def test_each_budget_ends_a_text_agent_and_no_kernel_that_was_paid_for_goes_unjudged(
    cell: Cell, trajectory: Trajectory, limit: dict[str, float], exit_status: ExitStatus, tools: list[str]
) -> None:
    agent = cell.text(AgentKind.iterative, [writes("good")] * 9, trajectory, turns=9, **limit)
    assert agent.run() is exit_status
    assert [tool for tool, _ in judged(trajectory)] == tools
    assert cell.model.queries == len(tools)


def test_the_best_of_n_tries_each_begin_afresh(cell: Cell, trajectory: Trajectory) -> None:
    replies = [writes("good 1"), writes("good 2"), says(), says(), writes("good 3"), writes("good 4")]
    settings = BestOfNSettings(tries=3, turns_per_try=2)
    agent = cell.text(AgentKind.best_of_n, in_turn(replies, trajectory), trajectory, turns=9, best_of_n=settings)
    assert agent.run() is ExitStatus.FINISHED
    sent = requests_sent(trajectory.events)
    assert [request.conversation for request in sent.values()] == [f"try-{n}" for n in (1, 1, 2, 2, 3, 3)]
    assert [len(request.messages) for request in sent.values()] == [2, 4, 2, 4, 2, 4]
    assert sent[1].messages[-1]["content"].endswith("This is your last reply.")
    assert len(judged(trajectory)) == 4


def test_a_conversation_that_ends_in_format_errors_leaves_the_other_tries(cell: Cell, trajectory: Trajectory) -> None:
    replies = [says(), says(), says(), writes("good")]
    settings = BestOfNSettings(tries=2, turns_per_try=4)
    agent = cell.text(AgentKind.best_of_n, in_turn(replies, trajectory), trajectory, turns=4, best_of_n=settings)
    assert agent.run() is ExitStatus.TURNS_SPENT
    assert judged(trajectory) == [("evaluate_kernel", "good")]


def test_a_conversation_that_the_provider_finds_too_long_ends_as_such(cell: Cell, trajectory: Trajectory) -> None:
    def script(turn: int, messages: list[Message]) -> Reply:
        if turn == 1:
            raise ProviderError(ProviderCause.CONTEXT, "too long")
        return writes("good")

    assert cell.text(AgentKind.iterative, script, trajectory).run() is ExitStatus.CONTEXT_SPENT
    assert judged(trajectory) == [("evaluate_kernel", "good")]


def test_a_try_that_the_provider_finds_too_long_leaves_the_others(cell: Cell, trajectory: Trajectory) -> None:
    def script(turn: int, messages: list[Message]) -> Reply:
        if turn == 1 and len(judged(trajectory)) == 1:
            raise ProviderError(ProviderCause.CONTEXT, "too long")
        return writes("good")

    settings = BestOfNSettings(tries=2, turns_per_try=2)
    agent = cell.text(AgentKind.best_of_n, script, trajectory, turns=9, best_of_n=settings)
    assert agent.run() is ExitStatus.FINISHED
    assert len(judged(trajectory)) == 3


def test_the_best_of_a_generation_are_the_parents_of_the_next(cell: Cell, trajectory: Trajectory) -> None:
    cell.judge.find = find
    agent = cell.text(AgentKind.evolve, in_turn(BRED, trajectory), trajectory, turns=20, evolve=EVOLVE)
    assert agent.run() is ExitStatus.FINISHED
    sent = requests_sent(trajectory.events)
    assert len(sent) == 8 and all(len(request.messages) == 2 for request in sent.values())
    assert sent[0].messages == sent[3].messages == cell.opening
    for turn in range(4, 8):
        task = sent[turn].messages[1]["content"]
        assert sent[turn].conversation == f"generation-2-child-{turn - 3}"
        assert task.index("```python\nslow\n```") < task.index("```python\nfast\n```")
        assert "Kernel runtime: 2.50 μs" in task and "broken" not in task


def test_fitness_goes_by_verdict_and_then_by_what_is_certain_of_the_speedup() -> None:
    words = ["broken", "crash", "wrong", "slow", "middling", "fast"]
    ranks = [fitness(find(word, Stage.TIMING)) for word in words]
    assert ranks == sorted(ranks) and len(set(ranks)) == len(ranks)


def candidates(*words: str) -> list[Candidate]:
    return [
        Candidate(source=word, result=ToolResult(text="t", ok=True, evaluation=find(word, Stage.TIMING)))
        for word in words
    ]


def test_elites_are_distinct_and_nothing_that_tampered_is_one() -> None:
    population = candidates("slow", "fast", "fast", "broken")
    tampered = Evaluation(status=Status.TAMPERING, stage=Stage.CORRECTNESS)
    cheat = Candidate(source="cheat", result=ToolResult(text="t", ok=False, evaluation=tampered))
    assert [elite.source for elite in best([*population, cheat], 9)] == ["fast", "slow", "broken"]
    assert [elite.source for elite in best(population, 1)] == ["fast"]


def test_parents_are_drawn_by_rank_without_repetition_and_alike_for_one_seed() -> None:
    ranked = candidates("fast", "middling", "slow")
    drawn = [draw(ranked, 1, random.Random(f"{seed}"))[0].source for seed in range(3000)]
    shares = [drawn.count(word) / 3000 for word in ("fast", "middling", "slow")]
    assert shares == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.03)
    pair = draw(ranked, 2, random.Random("a"))
    assert len({parent.source for parent in pair}) == 2 and pair == draw(ranked, 2, random.Random("a"))
    assert draw(ranked, 9, random.Random("a")) == ranked and draw([], 2, random.Random("a")) == []

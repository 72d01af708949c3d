from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from agent_cell import call, says, verdict

from agents.errors import ProviderCause, ProviderError, TrajectoryError
from agents.protocols import ExitStatus, Reply, ToolResult
from agents.requests import Request, requests_sent
from agents.trajectory import Trajectory
from evaluation.verdict import Stage


def never() -> Reply:
    raise AssertionError("this was paid for already")


def write_one_turn(path: Path) -> tuple[Reply, ToolResult]:
    reply = says(call("submit_kernel", kernel_code="good"), text="µ\ud800")
    result = ToolResult(text="t", ok=True, evaluation=verdict("good", Stage.TIMING), solution_sha256="ab" * 32)
    with Trajectory(path) as trajectory:
        trajectory.append("start", attempt=1)
        trajectory.reply(0, Request(messages=[{"role": "user", "content": "u"}]), lambda: reply)
        trajectory.tool_result(0, 0, reply.tool_calls[0], lambda _: result)
        trajectory.exit(ExitStatus.SUBMITTED)
    return reply, result


def test_every_event_is_a_line_in_the_order_that_it_was_acted_upon(tmp_path: Path) -> None:
    write_one_turn(tmp_path / "t.jsonl")
    events = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert [event["kind"] for event in events] == ["start", "request", "reply", "tool_call", "tool_result", "exit"]
    assert [event["seq"] for event in events] == list(range(6))
    assert events[1]["messages"] == [{"role": "user", "content": "u"}]
    assert events[3]["call"]["name"] == events[4]["name"] == "submit_kernel"
    assert events[4]["solution_sha256"] == "ab" * 32
    assert events[4]["result"]["evaluation"]["timing"]["candidate"]["median_us"] == 12.5
    assert all(event["t"] > 1.7e9 for event in events)


def test_an_event_is_on_the_disk_before_append_returns(tmp_path: Path) -> None:
    with Trajectory(tmp_path / "t.jsonl") as trajectory:
        trajectory.append("start", attempt=1)
        assert json.loads((tmp_path / "t.jsonl").read_text())["attempt"] == 1

        def ask() -> Reply:
            assert (tmp_path / "t.jsonl").read_text().splitlines()[-1].startswith('{"seq": 1')
            return says()

        trajectory.reply(0, Request(), ask)


def test_what_is_journaled_is_handed_out_and_not_made_again(tmp_path: Path) -> None:
    reply, result = write_one_turn(tmp_path / "t.jsonl")
    before = (tmp_path / "t.jsonl").read_bytes()
    with Trajectory(tmp_path / "t.jsonl") as trajectory:
        assert trajectory.reply(0, Request(), never) == reply
        assert trajectory.tool_result(0, 0, reply.tool_calls[0], lambda _: pytest.fail("run twice")) == result
        assert trajectory.exit_status is ExitStatus.SUBMITTED
        trajectory.exit(ExitStatus.TURNS_SPENT)
    assert (tmp_path / "t.jsonl").read_bytes() == before


def test_a_request_without_a_reply_is_asked_again_but_not_noted_again(tmp_path: Path) -> None:
    with Trajectory(tmp_path / "t.jsonl") as trajectory, pytest.raises(AssertionError):
        trajectory.reply(0, Request(), never)
    with Trajectory(tmp_path / "t.jsonl") as trajectory:
        assert trajectory.reply(0, Request(), says) == says()
        assert [event["kind"] for event in trajectory.events] == ["request", "reply"]


@pytest.mark.parametrize("tail", [b"{", b'{"seq": 6, "t": 1.0, "kind": "exit"}', b"\x00\x00", b"\xff", b"\r"])
def test_a_torn_last_line_is_cut(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "t.jsonl"
    write_one_turn(path)
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    with Trajectory(path) as trajectory:
        assert len(trajectory.events) == 6
        assert path.read_bytes() == whole
        trajectory.append("grade")
    with Trajectory(path) as trajectory:
        assert trajectory.events[-1]["kind"] == "grade"


def test_a_file_cut_at_any_byte_opens_with_the_whole_lines_before_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write_one_turn(path)
    whole = path.read_bytes()
    ends = [*range(0, len(whole), 23), *range(len(whole) - 60, len(whole))]
    for size in ends:
        path.write_bytes(whole[:size])
        with Trajectory(path) as trajectory:
            assert len(trajectory.events) == whole[:size].count(b"\n")


@pytest.mark.parametrize("damage", [b"{}", b"not json", b'{"seq": 5, "t": 1.0, "kind": "start"}', b"[]", b"\xff"])
def test_a_damaged_line_before_the_last_is_refused_in_one_sentence(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "t.jsonl"
    write_one_turn(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + damage + b"\n" + b"".join(lines[2:]))
    kept = path.read_bytes()
    with pytest.raises(TrajectoryError, match=r"t\.jsonl: line 2 is damaged; move the folder") as refused:
        Trajectory(path)
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == kept


def test_a_source_is_kept_once_under_its_hash(tmp_path: Path) -> None:
    with Trajectory(tmp_path / "cell" / "t.jsonl") as trajectory:
        source = "a = 'ü'\r\n"
        sha256 = trajectory.keep(source)
        assert sha256 == hashlib.sha256(source.encode()).hexdigest() == trajectory.keep(source)
        assert [path.name for path in (tmp_path / "cell/solutions").iterdir()] == [f"{sha256[:12]}.py"]
        assert trajectory.source(sha256[:12]) == source
        assert trajectory.kernel_ids() == [sha256[:12]]


@pytest.mark.parametrize("kernel_id", ["", "0" * 12, "../t", "../../../etc", "A" * 12, "0" * 64])
def test_an_unknown_id_has_no_source(tmp_path: Path, kernel_id: str) -> None:
    with Trajectory(tmp_path / "t.jsonl") as trajectory:
        trajectory.keep("x")
        assert trajectory.source(kernel_id) is None


def test_a_conversation_too_long_for_the_model_is_journaled_and_not_asked_again(tmp_path: Path) -> None:
    def refuse() -> Reply:
        raise ProviderError(ProviderCause.CONTEXT, "9 tokens too many")

    for ask in (refuse, never):
        with Trajectory(tmp_path / "t.jsonl") as trajectory:
            with pytest.raises(ProviderError, match="9 tokens too many") as refused:
                trajectory.reply(0, Request(), ask)
            assert refused.value.cause is ProviderCause.CONTEXT
            assert [event["kind"] for event in trajectory.events] == ["request", "refusal"]


def test_a_reply_is_not_handed_out_to_another_conversation(tmp_path: Path) -> None:
    with Trajectory(tmp_path / "t.jsonl") as trajectory:
        trajectory.reply(0, Request(conversation="a"), says)
    complaint = r"turn 0 was asked in conversation 'a' and not in 'b'; the program"
    with Trajectory(tmp_path / "t.jsonl") as trajectory, pytest.raises(TrajectoryError, match=complaint):
        trajectory.reply(0, Request(conversation="b"), never)


MESSAGES = [{"role": "user", "content": text} for text in "abcd"]


@pytest.mark.parametrize(
    "second",
    [MESSAGES, MESSAGES[:2], MESSAGES[:1], [MESSAGES[2], MESSAGES[1], MESSAGES[3]], []],
    ids=["longer", "the same", "shorter", "replaced", "nothing"],
)
def test_any_request_can_be_rebuilt_from_its_difference_to_the_one_before(tmp_path: Path, second: list[Any]) -> None:
    sent = [Request(messages=MESSAGES[:2], tools=[{"a": 1}]), Request(messages=second, tools=[], tool_choice="none")]
    sent.append(Request(messages=[*second, MESSAGES[3]], tool_choice="none"))
    with Trajectory(tmp_path / "t.jsonl") as trajectory:
        for turn, request in enumerate(sent):
            trajectory.reply(turn, request, says)
        events = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert list(requests_sent(events).values()) == sent


def test_a_request_in_doubt_that_has_changed_is_noted_as_it_was_sent_last(tmp_path: Path) -> None:
    with Trajectory(tmp_path / "t.jsonl") as trajectory, pytest.raises(AssertionError):
        trajectory.reply(0, Request(messages=MESSAGES[:2]), never)
    with Trajectory(tmp_path / "t.jsonl") as trajectory:
        trajectory.reply(0, Request(messages=MESSAGES[1:]), says)
        assert requests_sent(trajectory.events) == {0: Request(messages=MESSAGES[1:])}

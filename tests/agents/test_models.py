from __future__ import annotations

from pathlib import Path

import pytest
from agent_cell import Cell, call, says

from agents.errors import AgentConfigError, ProviderCause, ProviderError
from agents.models.recorded_model import RecordedModel, read_transcript
from agents.models.retry import with_retries
from agents.models.scripted_model import ScriptedModel
from agents.protocols import ExitStatus, Usage
from agents.trajectory import Trajectory

USER = {"role": "user", "content": "u"}
ASSISTANT = {"role": "assistant", "content": ""}

TRANSCRIPT = """\
origin: a test
problem: level1/23
kernels:
  first: &first |
    import torch
replies:
  - reasoning: thinking
    tool_calls:
      - {name: get_gpu_specs}
      - {name: compile_kernel, arguments: {kernel_code: *first}}
    usage: {prompt_tokens: 5, completion_tokens: 7}
  - text: a slip
    tool_calls: [{name: compile_kernel, arguments: '{"kernel_code'}]
"""


def transcript(tmp_path: Path, text: str = TRANSCRIPT) -> Path:
    path = tmp_path / "23.yaml"
    path.write_text(text)
    return path


def test_a_transcript_is_answered_turn_by_turn(tmp_path: Path) -> None:
    model = RecordedModel(read_transcript(transcript(tmp_path)))
    first = model.query([USER], [])
    assert (first.reasoning, [item.name for item in first.tool_calls]) == (
        "thinking",
        ["get_gpu_specs", "compile_kernel"],
    )
    assert [item.arguments for item in first.tool_calls] == ["{}", '{"kernel_code": "import torch\\n"}']
    assert first.usage == Usage(prompt_tokens=5, completion_tokens=7)
    second = model.query([USER, ASSISTANT, USER], [])
    assert (second.text, second.tool_calls[0].arguments) == ("a slip", '{"kernel_code')
    assert second.usage.prompt_tokens is None
    assert model.query([USER], []) == first
    assert (model.counts_tokens, model.knows_cost) == (False, False)


def test_a_recording_that_ends_without_a_submission_ends_as_a_format_error(tmp_path: Path, cell: Cell) -> None:
    model = RecordedModel(read_transcript(transcript(tmp_path)))
    with Trajectory(cell.path) as trajectory:
        loop = cell.loop([], trajectory, turns=15)
        loop.session.model = model
        assert loop.run() is ExitStatus.FORMAT_ERROR
        replies = [event["reply"]["text"] for event in trajectory.events if event["kind"] == "reply"]
    assert replies == ["", "a slip"] + ["The recording ends here."] * 3


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("replies: [", "is not a transcript: "),
        ("[]", "expected dict, got list"),
        ("origin: a\nproblem: b\nreplies: []\nmodel: c\n", "unknown field 'model'; known are"),
        ("origin: a\nproblem: b\n", "field 'replies' is missing"),
        ("origin: a\nproblem: b\nreplies: [{tool_calls: [{arguments: {}}]}]", "'name'"),
    ],
)
def test_a_file_of_another_form_is_refused_in_one_sentence(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(AgentConfigError) as refused:
        read_transcript(transcript(tmp_path, text))
    assert complaint in str(refused.value) and "\n" not in str(refused.value)


def test_a_missing_transcript_names_those_that_are_there(tmp_path: Path) -> None:
    transcript(tmp_path)
    with pytest.raises(AgentConfigError, match=r"no transcript .*24\.yaml; that folder has 23$"):
        read_transcript(tmp_path / "24.yaml")


def test_a_script_may_be_a_list_or_a_function() -> None:
    listed = ScriptedModel([says(text="0"), says(text="1")])
    assert [listed.query([USER], []).text, listed.query([USER, ASSISTANT], []).text] == ["0", "1"]
    assert listed.queries == 2
    with pytest.raises(IndexError):
        listed.query([ASSISTANT] * 2, [])
    asked = ScriptedModel(lambda turn, messages: says(call("f"), text=f"{turn} {len(messages)}"))
    assert asked.query([USER, ASSISTANT, USER], []).text == "1 3"


def failing(times: int, cause: ProviderCause, retry_after_s: float | None = None):
    def ask(attempt: int) -> int:
        if attempt <= times:
            raise ProviderError(cause, "busy", retry_after_s=retry_after_s)
        return attempt

    return ask


@pytest.mark.parametrize("cause", [cause for cause in ProviderCause if cause.passing])
def test_what_may_pass_is_tried_again_with_growing_jitter(cause: ProviderCause) -> None:
    waits: list[float] = []
    assert with_retries(failing(3, cause), 4, waits.append) == 4
    assert [0 <= wait <= bound for wait, bound in zip(waits, (1, 2, 4), strict=True)] == [True] * 3
    repeated = [[] for _ in range(5)]
    for waits in repeated:
        with_retries(failing(3, cause), 4, waits.append)
    assert len({tuple(waits) for waits in repeated}) == 5


def test_the_last_attempt_raises() -> None:
    waits: list[float] = []
    with pytest.raises(ProviderError, match=r"^RATE_LIMIT: busy$"):
        with_retries(failing(9, ProviderCause.RATE_LIMIT), 4, waits.append)
    assert len(waits) == 3


@pytest.mark.parametrize("cause", [cause for cause in ProviderCause if not cause.passing])
def test_what_will_not_pass_is_not_tried_again(cause: ProviderCause) -> None:
    with pytest.raises(ProviderError, match=cause):
        with_retries(failing(1, cause), 4, lambda _: pytest.fail("waited"))


def test_the_providers_wait_is_kept_to_unless_it_is_too_long() -> None:
    waits: list[float] = []
    assert with_retries(failing(2, ProviderCause.RATE_LIMIT, 7.5), 4, waits.append) == 3
    assert waits == [7.5, 7.5]
    with pytest.raises(ProviderError):
        with_retries(failing(1, ProviderCause.RATE_LIMIT, 3600.0), 4, lambda _: pytest.fail("waited"))

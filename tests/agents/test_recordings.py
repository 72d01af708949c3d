"""The quickstart's recordings as files; that they build, fail and pass as they should is shown by the sweep itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from agents.models.recorded_model import Transcript, read_transcript
from problems.library import Library

FOLDER = Path(__file__).resolve().parents[2] / "agents/recordings/quickstart"
PATHS = sorted(FOLDER.glob("*.yaml"))


@pytest.fixture(params=PATHS, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture
def transcript(path: Path) -> Transcript:
    return read_transcript(path)


def calls(transcript: Transcript, turns: int = 99) -> list[tuple[str, str | None]]:
    """(tool, kernel) of the first turns."""
    replies = transcript.replies[:turns]
    return [(call.name, call.arguments.get("kernel_code")) for reply in replies for call in reply.tool_calls]


def test_there_is_one_for_each_problem_of_the_quickstart() -> None:
    assert len(PATHS) == 3


def test_it_says_that_no_model_wrote_it_and_names_its_problem(path: Path, transcript: Transcript) -> None:
    assert transcript.origin == "hand-written for the quickstart; no model wrote this"
    assert Library().load(transcript.problem).name.rsplit("/", 1)[-1] == path.stem


def test_it_holds_few_sources_and_uses_them_all(transcript: Transcript) -> None:
    used = {source for _, source in calls(transcript) if source is not None}
    assert used == set(transcript.kernels.values()) and len(used) <= 4
    for source in used:
        tree = ast.parse(source)
        assert "ModelNew" in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


def test_only_the_larger_budget_gets_as_far_as_the_kernel_that_is_submitted(transcript: Transcript) -> None:
    last_tool, submitted = calls(transcript)[-1]
    assert calls(transcript)[0] == ("get_gpu_specs", None)
    assert last_tool == "submit_kernel" and "submit_kernel" not in dict(calls(transcript)[:-1])
    assert 5 < len(transcript.replies) <= 15
    assert ("run_correctness", submitted) in calls(transcript)
    assert ("run_correctness", submitted) not in calls(transcript, turns=4)
    assert len({source for tool, source in calls(transcript) if tool == "run_correctness"}) == 3

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from agent_cell import Cell, verdict

from agents import prompts
from agents.errors import AgentConfigError
from agents.factory import TOOLS, build_agent, build_model, transcript_path
from agents.models.open_gate import OpenGate
from agents.prompts import Prompt, prompt_hash
from agents.protocols import Agent, ExitStatus
from agents.scaffolds.baseline import Baseline, reference_as_candidate
from agents.scaffolds.tool_loop import ToolLoop
from agents.settings import (
    TOOL_SETS,
    AgentKind,
    AgentSettings,
    BestOfNSettings,
    BudgetSettings,
    ModelKind,
    ModelSettings,
    SessionSettings,
    tool_set_of,
)
from agents.trajectory import Trajectory
from evaluation.settings import EvaluationSettings
from evaluation.verdict import Stage
from problems.problem import FreeDim, Problem

RECORDED = {"name": "recorded", "kind": ModelKind.recorded, "transcript": "agents/recordings/quickstart"}


def build(cell: Cell, trajectory: Trajectory, agent: dict[str, Any], model: dict[str, Any], **budget: Any) -> Agent:
    settings = SessionSettings(
        agent=AgentSettings(**agent), model=ModelSettings(**model), budget=BudgetSettings(name="b", **budget)
    )
    return build_agent(settings, problem=cell.problem, evaluator=cell.judge, trajectory=trajectory, gate=OpenGate())


def test_a_recorded_cell_runs_from_its_settings_alone(cell: Cell, trajectory: Trajectory) -> None:
    cell.judge.find = lambda source, stage: verdict("good", stage)
    agent = build(cell, trajectory, {}, RECORDED, turns=15)
    assert isinstance(agent, ToolLoop)
    assert agent.run() is ExitStatus.SUBMITTED
    assert cell.judge.asked[-1][1] is Stage.TIMING
    system, user = trajectory.events[0]["messages"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert "class Model(nn.Module)" in user["content"]


def test_the_baseline_submits_the_reference_and_needs_no_model(cell: Cell, trajectory: Trajectory) -> None:
    agent = build(cell, trajectory, {"kind": AgentKind.baseline}, {"kind": ModelKind.litellm, "api_key_env": "ABSENT"})
    assert isinstance(agent, Baseline)
    assert agent.run() is ExitStatus.SUBMITTED
    source = reference_as_candidate(cell.problem)
    assert source.startswith(cell.problem.source.rstrip()) and "class ModelNew(Model):" in source
    assert [event["kind"] for event in trajectory.events] == ["tool_call", "tool_result", "exit"]
    assert trajectory.events[1]["name"] == "submit_kernel"
    assert trajectory.source(trajectory.events[1]["solution_sha256"][:12]) == source


def test_a_baseline_that_was_killed_submits_once(cell: Cell) -> None:
    for _ in range(2):
        with Trajectory(cell.path) as trajectory:
            assert build(cell, trajectory, {"kind": AgentKind.baseline}, {}).run() is ExitStatus.SUBMITTED
            assert len(trajectory.events) == 3


@pytest.mark.parametrize(
    ("agent", "model", "budget", "complaint"),
    [
        (
            {"tools": ["submit_kernel", "rm"]},
            RECORDED,
            {},
            r"agent\.tools names 'rm', which is unknown; valid are get_gpu",
        ),
        ({"tools": ["compile_kernel"]}, RECORDED, {}, "agent.tools must name submit_kernel"),
        ({"tools": "most"}, RECORDED, {}, r"agent\.tools cannot be 'most': it takes default, all, or a list"),
        ({"tools": ["submit_kernel", 3]}, RECORDED, {}, r"agent\.tools cannot be \['submit_kernel', 3\]"),
        ({"backend": "hip"}, RECORDED, {}, r"agent\.backend='hip' is unknown; valid are cpp, cuda, triton"),
        ({"prompt": "terse"}, RECORDED, {}, r"agent\.prompt='terse' is unknown; valid are default, text"),
        (
            {"persona": "wizard"},
            RECORDED,
            {},
            r"agent\.persona='wizard' is unknown; valid are careful, expert, explorer, hardware, minimal, none",
        ),
        (
            {"kind": AgentKind.iterative, "prompt": "text"},
            RECORDED,
            {},
            r"agent\.tools must be \[\] for agent\.kind=iterative",
        ),
        (
            {"kind": AgentKind.single_turn, "prompt": "text"},
            RECORDED,
            {},
            r"agent\.tools can be \[\] or \[submit_kernel\]",
        ),
        ({}, {**RECORDED, "transcript": None}, {}, "kind=recorded needs transcript=FOLDER"),
        ({}, {**RECORDED, "transcript": "agents/recordings"}, {}, "that folder has no transcript at all"),
        ({}, {"name": "s", "kind": ModelKind.scripted}, {}, "kind=scripted is built in code"),
        ({}, RECORDED, {"tokens": 100}, "budget 'b' limits tokens, but model 'recorded' does not state its use"),
        ({}, RECORDED, {"cost_usd": 1.0}, "budget 'b' limits dollars, but the price of model 'recorded' is unknown"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_in_one_sentence(
    cell: Cell, trajectory: Trajectory, agent: Any, model: Any, budget: Any, complaint: str
) -> None:
    with pytest.raises(AgentConfigError, match=complaint) as refused:
        build(cell, trajectory, agent, model, **budget)
    assert "\n" not in str(refused.value)
    assert trajectory.events == []


def test_a_set_of_tools_is_its_list(cell: Cell, trajectory: Trajectory) -> None:
    assert AgentSettings(tools="all").tools == list(TOOLS)
    assert AgentSettings() == AgentSettings(tools="default") == AgentSettings(tools=list(TOOL_SETS["default"]))
    assert [tool_set_of(AgentSettings(tools=name).tools) for name in TOOL_SETS] == list(TOOL_SETS)
    assert tool_set_of(["submit_kernel"]) == ["submit_kernel"]
    agent = build(cell, trajectory, {"tools": "all"}, RECORDED)
    assert isinstance(agent, ToolLoop)
    names = [schema["function"]["name"] for schema in agent.session.toolbox.schemas]
    assert names == list(TOOLS)
    assert f"## Tools\n\n{', '.join(names)}: use them" in agent.session.opening[0]["content"]


def test_a_transcript_is_found_by_the_problems_stem(problem: Problem) -> None:
    path = transcript_path(ModelSettings(**RECORDED), problem)
    assert path.name == "23_virtual_all_reduce_mean.yaml" and path.is_file()
    assert build_model(ModelSettings(**RECORDED), problem, OpenGate(), 0).name == "recorded"


def told(problem: Problem, agent: dict[str, Any] | None = None, **evaluation: Any) -> tuple[str, str]:
    budget = BudgetSettings(turns=9, tool_calls=21)
    prompt = Prompt(AgentSettings(**(agent or {})))
    system, user = prompt.opening(budget, EvaluationSettings(**evaluation), problem)
    return system["content"], user["content"]


def test_the_prompt_states_what_will_be_judged(problem: Problem) -> None:
    system, user = told(problem, draws=9, precision="bf16", cpu_threads=3)
    for fact in ("9 turn(s) and 21 tool call(s)", "All of 9 draws", "in bf16", "same 3 CPU core(s)", "float64"):
        assert fact in system
    assert ", ".join(problem.value_sets) in system
    assert problem.source.strip() in user and problem.name in user
    unlimited = Prompt(AgentSettings()).opening(BudgetSettings(), EvaluationSettings(), problem)
    assert "tool call(s)" not in unlimited[0]["content"]


def test_the_prompt_tells_whether_sizes_vary(problem: Problem) -> None:
    assert "Shapes are those of the reference's get_inputs." in told(problem)[0]
    assert "R from 2 to 8, B from 4 to 32" in told(problem, shapes="jitter")[0]
    assert problem.free_dims["R"] == FreeDim(low=2, high=8)


@pytest.mark.parametrize("backend", ["cpp", "cuda", "triton"])
def test_each_backend_has_an_example_that_is_a_module(problem: Problem, backend: str) -> None:
    user = told(problem, {"backend": backend}, device="cpu" if backend == "cpp" else "cuda")[1]
    blocks = [block.split("```")[0] for block in user.split("```python\n")[1:]]
    assert len(blocks) == 3 and blocks[2].strip() == problem.source.strip()
    assert "ModelNew" in compile(blocks[1], backend, "exec").co_names


CHANGES = {
    "default/system.md": True,
    "default/reminder.md": True,
    "shared/judging.md": True,
    "examples/cpp.md": True,
    "personas/expert.md": True,
    "examples/cuda.md": False,
    "personas/minimal.md": False,
    "text/system.md": False,
}


@pytest.mark.parametrize(("file", "changes"), CHANGES.items(), ids=CHANGES)
def test_the_hash_of_a_prompt_changes_with_the_files_that_it_is_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, changes: bool
) -> None:
    before = prompt_hash(AgentSettings())
    assert len(before) == 64 and before == prompt_hash(AgentSettings())
    shutil.copytree(prompts._ROOT, tmp_path / "prompts")
    monkeypatch.setattr(prompts, "_ROOT", tmp_path / "prompts")
    assert prompt_hash(AgentSettings()) == before
    changed = tmp_path / "prompts" / file
    changed.write_text(changed.read_text() + "\n")
    assert (prompt_hash(AgentSettings()) != before) is changes


def test_the_persona_is_the_first_that_the_model_reads(problem: Problem) -> None:
    for persona in sorted(path.stem for path in prompts._ROOT.glob("personas/*.md")):
        for prompt, kind in (("default", AgentKind.tool_loop), ("text", AgentKind.iterative)):
            system, _ = told(problem, {"persona": persona, "prompt": prompt, "kind": kind})
            told_to_be = (prompts._ROOT / f"personas/{persona}.md").read_text().strip()
            assert system.startswith(f"{told_to_be} You are given" if told_to_be else "You are given")
    assert (prompts._ROOT / "personas/none.md").read_text() == ""


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ({"kind": AgentKind.single_turn}, "You have one reply"),
        ({"kind": AgentKind.evolve}, "You have one reply"),
        ({"kind": AgentKind.iterative}, "You have 9 replies"),
        ({"kind": AgentKind.best_of_n, "best_of_n": BestOfNSettings(turns_per_try=3)}, "You have 3 replies"),
    ],
)
def test_a_model_that_answers_in_text_is_told_how_often_it_may(
    problem: Problem, agent: dict[str, Any], said: str
) -> None:
    system, user = told(problem, {"prompt": "text", "tools": [], **agent})
    assert said in system and "You have no tools." in system
    assert "in one fenced code block" in user and "kernel_code" not in system + user


@pytest.mark.parametrize(
    ("agent", "file", "text", "complaint"),
    [
        ({}, "default/system.md", "{{ turnz }}", r"system\.md names 'turnz'; it may name device, draws,"),
        ({}, "default/notice.md", "{{ truncated }}", r"notice\.md names 'truncated'; it may name tool_calls_left,"),
        ({}, "default/reminder.md", "a\n{% if %}", r"reminder\.md, line 2: "),
        (
            {"kind": AgentKind.iterative, "tools": []},
            "default/notice.md",
            "fine",
            r"agent\.prompt='default' has no feedback\.md, which agent\.kind=iterative needs",
        ),
    ],
)
def test_a_template_that_could_not_be_rendered_is_refused_before_anything_is_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: dict[str, Any], file: str, text: str, complaint: str
) -> None:
    shutil.copytree(prompts._ROOT, tmp_path / "prompts")
    monkeypatch.setattr(prompts, "_ROOT", tmp_path / "prompts")
    (tmp_path / "prompts" / file).write_text(text)
    with pytest.raises(AgentConfigError, match=complaint) as refused:
        prompt_hash(AgentSettings(**agent))
    assert "\n" not in str(refused.value)

"""Parts of a cell with the judge's process replaced by one that returns what a test wants it to find."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from agents.budget import Budget
from agents.factory import TOOLS, scaffold
from agents.models.scripted_model import Script, ScriptedModel
from agents.prompts import Prompt
from agents.protocols import Agent, Reply, ToolCall, Usage
from agents.session import Session
from agents.settings import AgentKind, AgentSettings, BudgetSettings, ModelSettings, SessionSettings
from agents.tools.kernels import Kernels
from agents.tools.toolbox import Toolbox
from agents.trajectory import Trajectory
from agents.window import room_tokens
from evaluation.disassembly.kernel_code import Disassembly, KernelCode
from evaluation.profile.rates import MeasuredRoofline, Rate
from evaluation.settings import EvaluationSettings
from evaluation.verdict import Correctness, Draw, Evaluation, Fault, Latency, Solution, Stage, Status, Timing
from problems.problem import Problem

REFERENCE_US = 7777.25


def latency(median_us: float) -> Latency:
    return Latency(
        median_us=median_us,
        low_us=median_us * 0.9,
        high_us=median_us * 1.1,
        mean_us=median_us + 1,
        std_us=0.5,
        samples_us=[median_us] * 3,
    )


def correctness(passed: int = 5, total: int = 5) -> Correctness:
    draws = [
        Draw(seed=91817161 + i, value_set="nominal", dims={}, passed=i < passed, max_abs_error=1e-7, max_rel_error=1e-6)
        for i in range(total)
    ]
    return Correctness(
        draws=draws,
        draws_total=total,
        max_abs_error=8.34e-07,
        mean_abs_error=9.15e-08,
        max_rel_error=2.98e-05,
        mean_rel_error=5.65e-07,
        reference_rms_error=1e-8,
        candidate_rms_error=1e-8,
        tolerance="a rule",
        kernelbench_passed=True,
        weights_rule="loaded",
    )


def verdict(source: str, stage: Stage) -> Evaluation:
    """What the double finds, by the first word of the source."""
    word = source.split()[0]
    if word == "broken":
        return Evaluation(status=Status.COMPILE_ERROR, stage=Stage.BUILD, message="k.cpp:3: error: expected ';'")
    if stage is Stage.BUILD:
        return Evaluation(status=Status.PASSED, stage=stage)
    if word == "wrong":
        return Evaluation(
            status=Status.INCORRECT_VALUES,
            stage=Stage.CORRECTNESS,
            message="output 0 differs",
            correctness=correctness(2),
        )
    if word == "crash":
        return Evaluation(
            status=Status.RUNTIME_ERROR, stage=Stage.CORRECTNESS, message="signal 11", fault=Fault.KILLED_BY_SIGNAL
        )
    if stage is Stage.CORRECTNESS:
        return Evaluation(status=Status.PASSED, stage=stage, correctness=correctness())
    timing = Timing(
        candidate=latency(12.5),
        reference=latency(REFERENCE_US),
        speedup=REFERENCE_US / 12.5,
        speedup_low=1.0,
        speedup_high=2.0,
        harness_us=0.5,
        calls_per_block=1,
        process_pairs=1,
        clock="none",
        wall_s=0.1,
    )
    unstable = word == "noisy"
    status = Status.UNSTABLE_TIMING if unstable else Status.PASSED
    return Evaluation(status=status, stage=stage, correctness=correctness(), timing=timing, wall_s={"queue": 0.0})


def rate(per_s: float, size: int) -> Rate:
    return Rate(per_s=per_s, spread=0.0123, rounds=5, calls=40, size=size)


ROOFLINE = MeasuredRoofline(
    device_name="NVIDIA Test",
    uuid="GPU-01234567-89ab-cdef-0123-456789abcdef",
    torch="2.11.0",
    driver="580.65.06",
    bandwidths={
        "dram_copy": rate(4.0e12, 2**31),
        "dram_read": rate(4.4e12, 2**31),
        "l2_read": rate(7.123e12, 20 * 2**20),
    },
    operations={"int8": rate(1.3e15, 8192), "fp32": rate(51.04e12, 4096), "fp16": rate(701.8e12, 8192)},
    absent={"fp8": "torch refused: not here"},
    wall_s=2.0,
)
"""A measurement as a judge would give it; the figures are made up."""


class JudgeDouble:
    """Stands where evaluation.client.Evaluator is, at the boundary of the judge's process; `asked` is its log."""

    def __init__(self, find: Callable[[str, Stage], Evaluation] = verdict) -> None:
        self.settings = EvaluationSettings()
        self.kernels: list[KernelCode] = []
        self.asked: list[tuple[str, Stage]] = []
        self.find = find

    def evaluate(self, problem: Problem, solution: Solution, stage: Stage) -> Evaluation:
        self.asked.append((solution.source, stage))
        return self.find(solution.source, stage)

    def disassemble(self, problem: Problem, solution: Solution) -> Disassembly:
        found = self.evaluate(problem, solution, Stage.BUILD)
        absent = "" if self.kernels else "the module has no native build"
        return Disassembly(evaluation=found, kernels=self.kernels, kernels_total=len(self.kernels), absent=absent)

    def roofline(self) -> MeasuredRoofline:
        return ROOFLINE


def call(name: str, *, id: str = "c", **arguments: Any) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=json.dumps(arguments))


def says(*calls: ToolCall, **fields: Any) -> Reply:
    fields = {"usage": Usage(prompt_tokens=100, completion_tokens=10, cost_usd=0.25), "wall_s": 2.0, **fields}
    return Reply(tool_calls=list(calls), **fields)


class Cell:
    """Everything of one cell that outlives its process, and a way to start that process again."""

    def __init__(self, folder: Path, problem: Problem) -> None:
        self.path = folder / "trajectory.jsonl"
        self.problem = problem
        self.judge = JudgeDouble()
        self.model = ScriptedModel([])
        self.toolbox_chars = 20_000
        self.model_settings = ModelSettings()
        self.opening = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]

    def loop(self, script: Script, trajectory: Trajectory, **limits: Any) -> Agent:
        """A tool loop that may call every tool."""
        return self.agent(AgentSettings(tools=list(TOOLS)), script, trajectory, **limits)

    def text(self, kind: AgentKind, script: Script, trajectory: Trajectory, **settings: Any) -> Agent:
        """An agent whose model answers in text; settings of the agent and limits of the budget may be mixed."""
        of_agent = {field.name for field in fields(AgentSettings)}
        limits = {name: value for name, value in settings.items() if name not in of_agent}
        chosen = {"tools": [], **{name: value for name, value in settings.items() if name in of_agent}}
        return self.agent(AgentSettings(kind=kind, prompt="text", **chosen), script, trajectory, **limits)

    def agent(self, settings: AgentSettings, script: Script, trajectory: Trajectory, **limits: Any) -> Agent:
        budget = Budget(BudgetSettings(**limits))
        kernels = Kernels(problem=self.problem, evaluator=self.judge, trajectory=trajectory, language="cpp")
        tools = [build(kernels, self.judge.settings) for build in TOOLS.values()]
        self.model = ScriptedModel(script)
        session = Session(
            model=self.model,
            toolbox=Toolbox(tools, budget, self.toolbox_chars),
            budget=budget,
            trajectory=trajectory,
            prompt=Prompt(settings),
            opening=self.opening,
            room_tokens=room_tokens(self.model_settings),
        )
        assembled = SessionSettings(agent=settings, model=self.model_settings, budget=budget.settings, seed=7)
        return scaffold(assembled, session)

"""Agents, models and tools by the names that the config gives them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agents.budget import Budget
from agents.errors import AgentConfigError
from agents.models.litellm_model import LitellmModel
from agents.models.recorded_model import RecordedModel, read_transcript
from agents.prompts import Prompt
from agents.protocols import Agent, Gate, Model, Tool
from agents.scaffolds.baseline import Baseline
from agents.scaffolds.best_of_n import BestOfN
from agents.scaffolds.evolve import Evolve
from agents.scaffolds.iterative import Iterative
from agents.scaffolds.single_turn import SingleTurn
from agents.scaffolds.text import EVALUATE, SUBMIT
from agents.scaffolds.tool_loop import ToolLoop
from agents.session import Session
from agents.settings import TOOL_SETS, AgentKind, AgentSettings, ModelKind, ModelSettings, SessionSettings
from agents.tools.compile_kernel import CompileKernel
from agents.tools.disassemble_kernel import DisassembleKernel
from agents.tools.ert_roofline import ErtRoofline
from agents.tools.evaluate_kernel import EvaluateKernel
from agents.tools.get_gpu_specs import GetGpuSpecs
from agents.tools.kernels import Kernels
from agents.tools.profile_kernel import ProfileKernel
from agents.tools.run_correctness import RunCorrectness
from agents.tools.static_check import StaticCheck
from agents.tools.submit_kernel import SubmitKernel
from agents.tools.toolbox import ALWAYS_POSSIBLE, Toolbox
from agents.trajectory import Trajectory
from agents.window import room_tokens
from evaluation.client import Evaluates
from evaluation.settings import EvaluationSettings
from problems.problem import Problem

_CHECKOUT = Path(__file__).resolve().parent.parent


def _draws(kernels: Kernels, evaluation: EvaluationSettings) -> int:
    return kernels.problem.draws_total(evaluation.draws)


TOOLS: dict[str, Callable[[Kernels, EvaluationSettings], Tool]] = {
    "get_gpu_specs": lambda _, evaluation: GetGpuSpecs(evaluation.device, evaluation.cpu_threads),
    "ert_roofline": lambda kernels, _: ErtRoofline(kernels.evaluator),
    "compile_kernel": lambda kernels, _: CompileKernel(kernels),
    "run_correctness": lambda kernels, evaluation: RunCorrectness(kernels, _draws(kernels, evaluation)),
    "evaluate_kernel": lambda kernels, evaluation: EvaluateKernel(kernels, _draws(kernels, evaluation)),
    "profile_kernel": lambda kernels, judged: ProfileKernel(kernels, _draws(kernels, judged), judged.device),
    "disassemble_kernel": lambda kernels, evaluation: DisassembleKernel(kernels, evaluation.device),
    "static_check": lambda kernels, _: StaticCheck(kernels),
    "submit_kernel": lambda kernels, evaluation: SubmitKernel(kernels, _draws(kernels, evaluation)),
}


def build_model(settings: ModelSettings, problem: Problem, gate: Gate, seed: int) -> Model:
    """The model of the config; its requests pass `gate`. Raises AgentConfigError when it cannot be had."""
    if settings.kind is ModelKind.litellm:
        return LitellmModel(settings, gate, seed)
    if settings.kind is ModelKind.recorded:
        return RecordedModel(read_transcript(transcript_path(settings, problem)), settings.name)
    raise AgentConfigError(
        f"model {settings.name!r}: kind=scripted is built in code, for tests; the config takes recorded or litellm"
    )


def transcript_path(settings: ModelSettings, problem: Problem) -> Path:
    """Where the recording for this problem is; its content decides what a cell with this model does."""
    if settings.transcript is None:
        raise AgentConfigError(f"model {settings.name!r}: kind=recorded needs transcript=FOLDER")
    return _CHECKOUT / settings.transcript / f"{problem.name.rsplit('/', 1)[-1]}.yaml"


def check_tools(agent: AgentSettings) -> None:
    """Raise AgentConfigError for tools that there are not, and for those that this kind of agent cannot offer."""
    if not isinstance(agent.tools, list) or not all(isinstance(name, str) for name in agent.tools):
        raise AgentConfigError(
            f"agent.tools cannot be {agent.tools!r}: it takes {', '.join(TOOL_SETS)}, or a list of tools such as [a,b]"
        )
    for name in agent.tools:
        if name not in TOOLS:
            raise AgentConfigError(f"agent.tools names {name!r}, which is unknown; valid are {', '.join(TOOLS)}")
    kind, names = agent.kind, set(agent.tools)
    if kind is AgentKind.tool_loop and ALWAYS_POSSIBLE not in names:
        raise AgentConfigError(f"agent.tools must name {ALWAYS_POSSIBLE}: without it no session could hand in a kernel")
    if kind is AgentKind.single_turn and names - {SUBMIT}:
        raise AgentConfigError(f"agent.tools can be [] or [{SUBMIT}] for agent.kind=single_turn: it calls nothing else")
    if kind in (AgentKind.iterative, AgentKind.best_of_n, AgentKind.evolve) and names:
        raise AgentConfigError(f"agent.tools must be [] for agent.kind={kind.value}: its model answers in text")


def language_of(agent: AgentSettings) -> str:
    """The language of the kernels that this agent hands in."""
    return "python" if agent.kind is AgentKind.baseline else agent.backend


def build_agent(
    settings: SessionSettings, *, problem: Problem, evaluator: Evaluates, trajectory: Trajectory, gate: Gate
) -> Agent:
    """The agent of one cell; running it continues `trajectory`. Only an agent that asks a model builds one.

    Raises AgentConfigError for settings that cannot be used.
    """
    agent, budget = settings.agent, settings.budget
    if agent.kind is AgentKind.baseline:
        return Baseline(problem=problem, trajectory=trajectory)
    check_tools(agent)
    kernels = Kernels(problem=problem, evaluator=evaluator, trajectory=trajectory, language=language_of(agent))
    limits = Budget(budget)
    names = agent.tools if agent.kind is AgentKind.tool_loop else [EVALUATE, SUBMIT]
    toolbox = Toolbox([TOOLS[name](kernels, evaluator.settings) for name in names], limits, agent.tool_text_chars)
    prompt = Prompt(agent)
    model = build_model(settings.model, problem, gate, settings.seed)
    limits.admit(model)
    session = Session(
        model=model,
        toolbox=toolbox,
        budget=limits,
        trajectory=trajectory,
        prompt=prompt,
        opening=prompt.opening(budget, evaluator.settings, problem),
        room_tokens=room_tokens(settings.model),
        max_format_errors=agent.max_format_errors,
    )
    return scaffold(settings, session)


def scaffold(settings: SessionSettings, session: Session) -> Agent:
    """The loop that the settings choose, on a session."""
    agent = settings.agent
    match agent.kind:
        case AgentKind.single_turn:
            return SingleTurn(session=session, offers_submit=SUBMIT in agent.tools)
        case AgentKind.iterative:
            return Iterative(session=session)
        case AgentKind.best_of_n:
            return BestOfN(session=session, settings=agent.best_of_n)
        case AgentKind.evolve:
            return Evolve(session=session, settings=agent.evolve, seed=settings.seed)
        case _:
            return ToolLoop(session=session)

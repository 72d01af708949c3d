"""What a model is told: Markdown templates under `prompts/`, rendered strictly.

`prompts/<name>/` is a whole prompt: system.md and problem.md open a conversation, the others are what is said later.
It may include what lies in `prompts/shared/`; the worked example comes from `prompts/examples/`, the persona from
`prompts/personas/`. All that an agent can be told is part of its cells' identity.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateSyntaxError
from jinja2.meta import find_undeclared_variables

from agents.errors import AgentConfigError
from agents.protocols import Message
from agents.settings import AgentKind, AgentSettings, BudgetSettings
from evaluation.settings import EvaluationSettings
from problems.problem import Problem

_ROOT = Path(__file__).parent / "prompts"
_LANGUAGES = {"cpp": "C++", "cuda": "CUDA C++", "triton": "Triton"}
_JUDGING = {"shapes", "value_sets", "precision", "draws", "threads"}
_FACTS = {
    "system.md": {"persona", "language", "device", "turns", "tool_calls", "tools", *_JUDGING},
    "problem.md": {"precision", "example", "problem_name", "problem_source"},
    "reminder.md": {"truncated"},
    "notice.md": {"turns_left", "tool_calls_left"},
    "feedback.md": {"result", "correct", "turns_left"},
    "offspring.md": {"parents"},
}
"""Template -> what it may name."""
_SAID_LATER = {
    AgentKind.tool_loop: ("reminder.md", "notice.md"),
    AgentKind.iterative: ("reminder.md", "feedback.md"),
    AgentKind.best_of_n: ("reminder.md", "feedback.md"),
    AgentKind.evolve: ("reminder.md", "feedback.md", "offspring.md"),
}
"""What an agent needs beside the two that open a conversation."""


class Prompt:
    """The texts of one agent.

    Raises AgentConfigError for an unknown prompt, persona or backend, and for a template that is missing or wrong: no
    reply is to be paid for before that is known.
    """

    def __init__(self, settings: AgentSettings) -> None:
        if settings.backend not in _LANGUAGES:
            raise AgentConfigError(f"agent.backend={settings.backend!r} is unknown; valid are {', '.join(_LANGUAGES)}")
        self._settings = settings
        self._folder = _ROOT / settings.prompt
        if not (self._folder / "system.md").is_file():
            raise _unknown("prompt", settings.prompt, [path.parent.name for path in _ROOT.glob("*/system.md")])
        self._persona = _ROOT / "personas" / f"{settings.persona}.md"
        if not self._persona.is_file():
            raise _unknown("persona", settings.persona, [path.stem for path in _ROOT.glob("personas/*.md")])
        self._example = _ROOT / "examples" / f"{settings.backend}.md"
        self._templates = Environment(
            loader=FileSystemLoader([self._folder, _ROOT]), undefined=StrictUndefined, autoescape=False
        )
        for name in ("system.md", "problem.md", *_SAID_LATER.get(settings.kind, ())):
            self._check(name)

    @property
    def sha256(self) -> str:
        """Over all files that this prompt can be made of, names included."""
        digest = hashlib.sha256()
        parts = [*self._folder.rglob("*.md"), *_ROOT.glob("shared/*.md"), self._persona, self._example]
        for path in sorted(parts):
            data = path.read_bytes()
            digest.update(f"{path.relative_to(_ROOT).as_posix()} {len(data)}\n".encode() + data)
        return digest.hexdigest()

    def _check(self, name: str) -> None:
        path = self._folder / name
        if not path.is_file():
            kind, prompt = self._settings.kind.value, self._settings.prompt
            raise AgentConfigError(f"agent.prompt={prompt!r} has no {name}, which agent.kind={kind} needs")
        try:
            named = find_undeclared_variables(self._templates.parse(path.read_text(encoding="utf-8")))
        except TemplateSyntaxError as error:
            raise AgentConfigError(f"{path}, line {error.lineno}: {error.message}") from error
        if unknown := sorted(named - _FACTS[name]):
            raise AgentConfigError(f"{path} names {unknown[0]!r}; it may name {', '.join(sorted(_FACTS[name]))}")

    def render(self, name: str, **facts: Any) -> str:
        """One text, such as `reminder.md`. Raises jinja2's UndefinedError when the template asks for another fact."""
        return self._templates.get_template(name).render(**facts)

    def opening(self, budget: BudgetSettings, evaluation: EvaluationSettings, problem: Problem) -> list[Message]:
        """System message and first user message of every conversation."""
        on_cpu = evaluation.device == "cpu"
        system = self.render(
            "system.md",
            persona=self._persona.read_text(encoding="utf-8").strip(),
            language=_LANGUAGES[self._settings.backend],
            device="this machine's CPU" if on_cpu else "this machine's GPU",
            turns=turns_per_conversation(self._settings, budget),
            tool_calls=budget.tool_calls,
            tools=self._settings.tools,
            shapes=_shapes(evaluation, problem),
            value_sets=", ".join(problem.value_sets),
            precision=evaluation.precision,
            draws=problem.draws_total(evaluation.draws),
            threads=f"Both are pinned to the same {evaluation.cpu_threads} CPU core(s)." if on_cpu else "",
        )
        task = self.render(
            "problem.md",
            precision=evaluation.precision,
            example=self._example.read_text(encoding="utf-8").rstrip("\n"),
            problem_name=problem.name,
            problem_source=problem.source.strip(),
        )
        return [{"role": "system", "content": system}, {"role": "user", "content": task}]


def prompt_hash(settings: AgentSettings) -> str:
    """What of its texts goes into the identity of an agent's cells. Raises AgentConfigError as Prompt does."""
    return Prompt(settings).sha256


def turns_per_conversation(settings: AgentSettings, budget: BudgetSettings) -> int:
    """Replies that the model has in one conversation; the budget's turns are for all of a cell's conversations."""
    if settings.kind in (AgentKind.single_turn, AgentKind.evolve):
        return min(1, budget.turns)
    if settings.kind is AgentKind.best_of_n:
        return min(settings.best_of_n.turns_per_try, budget.turns)
    return budget.turns


def _shapes(evaluation: EvaluationSettings, problem: Problem) -> str:
    if evaluation.shapes == "fixed" or not problem.free_dims:
        return "Shapes are those of the reference's get_inputs."
    ranges = ", ".join(f"{name} from {dim.low} to {dim.high}" for name, dim in problem.free_dims.items())
    return f"Shapes differ from draw to draw: {ranges}."


def _unknown(key: str, given: str, valid: list[str]) -> AgentConfigError:
    return AgentConfigError(f"agent.{key}={given!r} is unknown; valid are {', '.join(sorted(valid))}")

"""The corpora of tests/data: exploits, which must be caught, and honest candidates, which must not be refused."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from evaluation.judge import Judge
from evaluation.settings import EvaluationSettings, LimitSettings, TimingSettings
from evaluation.timing.device_clock import NOT_BELIEVED
from evaluation.verdict import Evaluation, Solution, Stage
from problems.library import Library, read_problem
from problems.problem import Problem

DATA = Path(__file__).parents[1] / "data"
CHARGED = "charged"
MARGIN = 0.1
"""A candidate that is to be charged its true time, which is the reference's or more, must not be called faster than
this above 1: the interval of its speed-up must begin below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One folder: `expect.yaml`, `candidate.py` unless it names another one, and `problem.py` where no other fits."""

    id: str
    folder: Path
    title: str
    problem: str
    """A name of the library, a stem of tests/data/problems, or `problem.py` for the one in the folder."""
    needs: str = "cpu"
    """Where it runs: `cpu`, `gpu`, or `any` for what runs unchanged on either and shows something of its own there."""
    source: str = ""
    """The entry of the design's list that this makes a test of; `own` for ways that it does not name."""
    stage: str = "correctness"
    expected: str | list[str] = field(default_factory=lambda: ["PASSED"])
    """Statuses, any of which will do; or `charged`: correct, and charged its true time."""
    alternative: str = ""
    """`charged` beside statuses: where the machine gives it nothing to go by, it is correct and charged."""
    charged: bool = False
    """Beside statuses with a correct one among them: then its time counts too."""
    precision: str = "fp32"
    language: str = "cpp"
    shapes: str = "fixed"
    note: str = ""
    limits: dict[str, Any] = field(default_factory=dict)
    draws: int | None = None
    candidate: str = ""
    """A stem of tests/data/candidates, where it is one of these."""
    open_hole: str = ""
    """Why it is not caught every time. The benchmark counts it as not caught; the suite expects that it may pass."""
    slow: bool = False
    """For benchmarks/trust.py alone."""

    def runs_on(self, device: str) -> bool:
        """Whether it is one for `cpu` or `cuda`."""
        return self.needs in ("any", {"cpu": "cpu", "cuda": "gpu"}[device])

    @property
    def solution(self) -> Solution:
        """The candidate."""
        named = DATA / "candidates" / f"{self.candidate}.py"
        path = named if self.candidate else self.folder / "candidate.py"
        return Solution(source=path.read_text(), language=self.language)

    def load_problem(self) -> Problem:
        """The problem that it is put to."""
        if self.problem == "problem.py":
            return read_problem(self.folder / "problem.py")
        own = DATA / "problems" / f"{self.problem}.py"
        return read_problem(own) if own.is_file() else Library("own").load(self.problem)

    def complaint(self, evaluation: Evaluation, sureness: float = 1.0) -> str | None:
        """What is not as it should be, in one sentence; None when all is.

        `sureness`: how many times as far as its interval's lower end a speed-up is taken to be off by chance.
        """
        charged = CHARGED in (self.expected, self.alternative) or self.charged
        wanted = [] if self.expected == CHARGED else list(self.expected)
        if charged and evaluation.status.correct:
            timing = evaluation.timing
            if timing is None:
                return "it was not timed"
            if timing.speedup * (timing.speedup_low / timing.speedup) ** sureness <= 1 + MARGIN:
                return None
            return f"called {timing.speedup:.2f} times as fast, [{timing.speedup_low:.2f}, {timing.speedup_high:.2f}]"
        if evaluation.status.value in wanted:
            timing = evaluation.timing
            if timing is not None and NOT_BELIEVED in timing.clock:
                return f"charged {timing.candidate.median_us:.1f} us: {NOT_BELIEVED}"
            return None
        choices = " or ".join([*wanted, *([CHARGED] if charged else [])])
        return f"{evaluation.status} where {choices} is due: {evaluation.message[:300]}"


def entries(corpus: str, device: str) -> list[Entry]:
    """All of `exploits` or `honest` that run on `cpu` or `cuda`, by id.

    Raises TypeError for an unknown field, ValueError for an unknown place to run.
    """
    found = [_read(path) for path in sorted((DATA / corpus).glob("*/expect.yaml"))]
    return [entry for entry in found if entry.runs_on(device)]


def _read(path: Path) -> Entry:
    entry = Entry(id=path.parent.name, folder=path.parent, **yaml.load(path.read_text(), yaml.CSafeLoader))
    if entry.needs not in ("cpu", "gpu", "any"):
        raise ValueError(f"{path}: needs is cpu, gpu or any, not {entry.needs!r}")
    return entry


def settings(timing: TimingSettings, device: str = "cpu") -> EvaluationSettings:
    """As tight as the corpora bear, so that they run in little time."""
    # The CUDA driver has threads of its own in every worker.
    limits = LimitSettings(load_s=20.0, call_s=10.0, processes=32 if device == "cpu" else 64)
    return EvaluationSettings(device=device, draws=6, timing=timing, limits=limits)


def evaluate(judge: Judge, entry: Entry, stage: Stage | None = None) -> Evaluation:
    """Judge one entry as it asks to be, or as far as `stage`."""
    with _changed(judge, entry):
        return judge.evaluate(entry.load_problem(), entry.solution, stage or Stage(entry.stage))


@contextlib.contextmanager
def _changed(judge: Judge, entry: Entry) -> Iterator[None]:
    wanted = {"precision": entry.precision, "shapes": entry.shapes, "draws": entry.draws or judge.settings.draws}
    with _set(judge.settings, wanted), _set(judge.settings.limits, entry.limits):
        yield


@contextlib.contextmanager
def _set(owner: Any, values: dict[str, Any]) -> Iterator[None]:
    before = {name: getattr(owner, name) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)

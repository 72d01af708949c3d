"""What profiles need of the judge, and what one leaves to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from evaluation.building.builder import Builder
from evaluation.device import harness
from evaluation.environment import gpu_uuid
from evaluation.profile.counted import Counting, Ready
from evaluation.profile.ncu import NcuError
from evaluation.sandbox.sandbox import Level
from evaluation.settings import EvaluationSettings
from evaluation.worker.handle import Worker
from problems.problem import Problem

_KEPT_REFERENCES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Of one judge."""

    settings: EvaluationSettings
    builder: Builder
    worker: Callable[[], Worker]
    """Gives a fresh one."""
    ready: Ready
    cache_dir: Path
    _references: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: EvaluationSettings, builder: Builder, worker: Callable[[], Worker], cache_dir: Path) -> Tools:
        """Profiles that are sure to come find their first ncu started."""

        def begin(program: Path) -> Counting:
            if settings.require_sandbox > Level.PROCESS:
                wanted = f"evaluation.require_sandbox={settings.require_sandbox}"
                raise NcuError(f"{wanted}, and ncu needs sandbox level 0")
            return Counting(program, harness.build(cache_dir), gpu_uuid(), settings.limits, settings.cpu_threads)

        tools = cls(settings=settings, builder=builder, worker=worker, ready=Ready(begin), cache_dir=cache_dir)
        if settings.device == "cuda" and settings.profile == "final":
            tools.ready.refill()
        return tools

    def reference_of(self, problem: Problem) -> dict[str, float]:
        """Figures of this problem's reference, as they were last measured; none if they were not."""
        return dict(self._references.get((problem.name, problem.source), {}))

    def keep_reference(self, problem: Problem, figures: dict[str, float]) -> None:
        """Have `reference_of` know these, and forget the oldest where there are many."""
        self._references[problem.name, problem.source] = figures
        while len(self._references) > _KEPT_REFERENCES:
            del self._references[next(iter(self._references))]

    def close(self) -> None:
        """End what is ready."""
        self.ready.close()

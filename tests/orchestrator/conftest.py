"""Finished cells as the runner leaves them on disk, written by hand so that their figures are known."""

from __future__ import annotations

import dataclasses
import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.protocols import ExitStatus, Reply, ToolCall, ToolResult, Usage
from agents.trajectory import Trajectory
from evaluation.serialize import to_plain
from evaluation.verdict import (
    Build,
    Correctness,
    Draw,
    Environment,
    Evaluation,
    Latency,
    Stage,
    Status,
    Timing,
)
from orchestrator.cell import Cell, Record
from orchestrator.settings import TrackingSettings
from orchestrator.store.journal import kernel_attempts, turns
from orchestrator.store.store import Store
from problems.library import Library

PROBLEM = "level1/24_row_softmax"
SLOW = """import torch
from torch.utils.cpp_extension import load_inline

cpp_source = r'''
torch::Tensor softmax(torch::Tensor x) {
    auto out = torch::empty_like(x);
    for (int64_t row = 0; row < x.size(0); ++row) { /* one row after the other */ }
    return out;
}
'''
module = load_inline(name="softmax", cpp_sources=cpp_source, functions=["softmax"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return module.softmax(x)
"""
FAST = SLOW.replace("/* one row after the other */", "/* eight rows at once */").replace(
    "empty_like(x)", "zeros_like(x)"
)


def latency(median_us: float, seed: int) -> Latency:
    noise = random.Random(seed)
    samples = [median_us * (1 + abs(noise.gauss(0, 0.04))) for _ in range(24)]
    return Latency(
        median_us=median_us * 1.02,
        low_us=median_us * 1.01,
        high_us=median_us * 1.04,
        mean_us=sum(samples) / len(samples),
        std_us=median_us * 0.03,
        samples_us=samples,
    )


def passed(candidate_us: float, reference_us: float) -> Evaluation:
    ratio = reference_us / candidate_us
    return Evaluation(
        status=Status.PASSED,
        stage=Stage.TIMING,
        tags=["uses_load_inline"],
        builds=[Build(name="softmax", tier="lite", cached=False, wall_s=2.41, key="5f" * 32)],
        correctness=Correctness(
            draws=[
                Draw(
                    seed=90210 + index,
                    value_set=name,
                    dims={"B": 16 + index, "D": 64},
                    passed=True,
                    max_abs_error=8.34e-07,
                    max_rel_error=2.98e-05,
                )
                for index, name in enumerate(("nominal", "scaled", "heavy_tailed", "sparse", "shifted"))
            ],
            draws_total=5,
            max_abs_error=8.34e-07,
            mean_abs_error=9.15e-08,
            max_rel_error=2.98e-05,
            mean_rel_error=5.65e-07,
            reference_rms_error=1.1e-07,
            candidate_rms_error=1.3e-07,
            tolerance="|error| <= 1e-06 * row rms + 1e-05 * |oracle|, and rms error <= 4 x the reference's",
            kernelbench_passed=True,
            weights_rule="loaded",
        ),
        timing=Timing(
            candidate=latency(candidate_us, 1),
            reference=latency(reference_us, 2),
            speedup=ratio,
            speedup_low=ratio * 0.97,
            speedup_high=ratio * 1.03,
            harness_us=0.5,
            calls_per_block=64,
            process_pairs=4,
            clock="wall clock of the judge, lock-step calls, one thread",
            wall_s=1.31,
        ),
        environment=Environment(
            device="cpu",
            device_name="Some CPU @ 2.10GHz",
            threads=1,
            torch="2.13.0+cpu",
            python="3.11.2",
            compiler="g++ 12.2.0",
            platform="Linux-6.1-x86_64",
            sandbox_level=2,
            sandbox="namespaces and seccomp",
        ),
        problem=PROBLEM,
        wall_s={"queue": 0.0, "build": 2.41, "load": 0.2, "correctness": 0.4, "timing": 1.31},
    )


FAILED_BUILD = Evaluation(
    status=Status.COMPILE_ERROR, stage=Stage.BUILD, message="error: 'zeros_lik' is not a member of 'torch'"
)


@dataclasses.dataclass(kw_only=True)
class CellOnDisk:
    """Writes one finished cell; change a field to change the story."""

    store: Store
    seed: int = 0
    model: str = "recorded"
    agent: str = "tool_loop"
    text: str = "I will use one loop over rows."
    reasoning: str = "The rows are independent."
    slow: str = SLOW
    fast: str = FAST
    error_text: str = "compile_kernel FAILED: error: 'zeros_lik' is not a member of 'torch'"
    grade: Evaluation | None = dataclasses.field(default_factory=lambda: passed(1.234, 1.79))
    cost_usd: float | None = None

    def write(self) -> Record:
        problem = Library().load(PROBLEM)
        cell = Cell(
            problem=PROBLEM,
            model=self.model,
            agent=self.agent,
            budget="small",
            evaluation="cpu",
            seed=self.seed,
            identity={
                "problem": {"name": PROBLEM, "sha256": problem.source_sha256},
                "model": {"name": self.model},
                "agent": {"name": self.agent, "kind": self.agent, "backend": "cpp"},
                "budget": {"turns": 4, "tool_calls": None},
                "evaluation": {"device": "cpu", "shapes": "jitter", "precision": "fp32"},
                "seed": self.seed,
            },
            runtime={"problem": {"source": "own", "path": None}},
        )
        self.store.write_cell(cell)
        with Trajectory(self.store.trajectory_path(cell.uid)) as trajectory:
            trajectory.append("start", attempt=1)
            graded = self._work(trajectory, problem.source) if self.agent != "baseline" else trajectory.keep(SLOW)
            if self.grade is not None:
                trajectory.append("grade", solution_sha256=graded, evaluation=to_plain(self.grade), purpose="final")
            story = turns(trajectory.events)
        record = Record(
            uid=cell.uid,
            experiment=self.store.name,
            cell=cell,
            attempt=1,
            exit_status=ExitStatus.SUBMITTED,
            verdict=self.grade.status.value if self.grade else "NO_SOLUTION",
            turns=len(story),
            tool_calls=sum(len(turn.calls) for turn in story),
            usage=Usage(
                prompt_tokens=3396 * len(story),
                completion_tokens=567 * len(story),
                reasoning_tokens=120 * len(story),
                cached_tokens=1024 * len(story),
                cost_usd=self.cost_usd,
            ),
            truncated=False,
            llm_s=28.6,
            tools_s=4.2,
            wall_s=32.9,
            started_at="2026-05-11T18:05:12Z",
            finished_at="2026-05-11T18:05:45Z",
            grade=self.grade,
            graded_sha256=graded if self.grade else None,
            attempts=kernel_attempts(story),
        )
        assert self.store.commit(record, lambda: True)
        return record

    def _work(self, trajectory: Trajectory, source: str) -> str:
        broken, slow, fast = (trajectory.keep(text) for text in (self.slow + "# 1\n", self.slow, self.fast))
        steps = [
            (
                "compile_kernel",
                self.slow + "# 1\n",
                ToolResult(text=self.error_text, ok=False, evaluation=FAILED_BUILD, wall_s=2.2, solution_sha256=broken),
            ),
            (
                "submit_kernel",
                self.slow,
                ToolResult(
                    text="submit_kernel PASSED: (5 / 5) draws",
                    ok=True,
                    evaluation=passed(2.6, 1.79),
                    wall_s=1.0,
                    solution_sha256=slow,
                ),
            ),
            (
                "submit_kernel",
                self.fast,
                ToolResult(
                    text="submit_kernel PASSED: (5 / 5) draws",
                    ok=True,
                    evaluation=passed(1.234, 1.79),
                    wall_s=1.0,
                    solution_sha256=fast,
                ),
            ),
        ]
        for number, (tool, code, result) in enumerate(steps, start=1):
            reply = Reply(
                text=self.text,
                reasoning=self.reasoning,
                tool_calls=[ToolCall(id=f"c{number}", name=tool, arguments=json.dumps({"kernel_code": code}))],
                usage=Usage(
                    prompt_tokens=3396,
                    completion_tokens=567,
                    reasoning_tokens=120,
                    cached_tokens=1024,
                    cost_usd=self.cost_usd,
                ),
                wall_s=9.5,
            )
            messages = [{"role": "user", "content": f"## Task\n{source}"}] if number == 1 else []
            trajectory.append("request", turn=number, messages=messages)
            trajectory.append("reply", turn=number, reply=to_plain(reply))
            trajectory.tool_result(number, 0, reply.tool_calls[0], lambda call, result=result: result)
        trajectory.exit(ExitStatus.SUBMITTED)
        return fast


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "pages")


@pytest.fixture
def finish_cell(store: Store) -> Callable[..., Record]:
    """`finish_cell(seed=1, text=...)` writes a finished cell into `store`; the fields are those of CellOnDisk."""

    def finish(**changes: Any) -> Record:
        return CellOnDisk(store=store, **changes).write()

    return finish


@pytest.fixture
def timed() -> Callable[[float, float], Evaluation]:
    """`timed(candidate_us, reference_us)` is a passed evaluation with these latencies."""
    return passed


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An MLflow store without runs: making its tables takes seconds, so it is done once."""
    from orchestrator.tracking.mirror import MlflowClient, quiet

    path = tmp_path_factory.mktemp("mlflow") / "empty.db"
    with quiet():
        MlflowClient(f"sqlite:///{path}").search_experiments()
    return path.read_bytes()


@pytest.fixture
def settings(tmp_path: Path, empty_database: bytes) -> TrackingSettings:
    """Tracking into a fresh store under `tmp_path`."""
    (tmp_path / "mlflow.db").write_bytes(empty_database)
    return TrackingSettings(uri=f"sqlite:///{tmp_path}/mlflow.db")


@dataclasses.dataclass
class StandingClock:
    """Time that moves when a test moves it, or somebody waits."""

    time: float = 1_000_000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.time += max(0.0, seconds)
        return event.is_set()


@pytest.fixture
def clock() -> StandingClock:
    """A clock for what takes minutes."""
    return StandingClock()

"""The one that decides: holds problem, inputs, oracle, clock and verdict; never runs a line of a candidate."""

from __future__ import annotations

import hashlib
import itertools
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from evaluation import environment
from evaluation.building.builder import Builder
from evaluation.building.request import BuildReply, BuildRequest
from evaluation.correctness.compare import Comparison
from evaluation.correctness.oracle import Oracle
from evaluation.correctness.trials import Trials, new_seed
from evaluation.correctness.weights import unmatched
from evaluation.errors import CandidateFault, EvaluatorError
from evaluation.profile.judged import BesideVerdicts, profiled
from evaluation.profile.tools import Tools
from evaluation.sandbox import sandbox
from evaluation.settings import EvaluationSettings
from evaluation.tags import static_tags
from evaluation.verdict import Build, Correctness, Evaluation, Fault, Solution, Stage, Status, Timing
from evaluation.worker.arm import WorkerArm
from evaluation.worker.codec import NotCarried
from evaluation.worker.handle import Zygote
from evaluation.worker.setup import Setup
from evaluation.worker.start import start_zygote
from evaluation.worker.weights import LOADED, SEEDED
from evaluation.workplace import workplace
from problems.inputs import LoadedProblem
from problems.problem import Problem, ProblemError

_MAX_BATCH_DRAWS = 3
_LOG_CHARS = 20_000
_MESSAGE_CHARS = 4_000


class Judge(BesideVerdicts):
    """Judges one solution after another. Not thread-safe: times are measured, so there is one at a time."""

    def __init__(self, settings: EvaluationSettings, cache_dir: Path, zygote: Zygote | None = None) -> None:
        """Takes ownership of `zygote`. Raises EvaluatorError when the machine is not fit for the settings."""
        self.settings = settings
        self.zygote = zygote or start_zygote(settings, cache_dir)
        with ExitStack() as opened:
            opened.callback(self.zygote.close)
            self.builder = Builder(cache_dir, settings.limits)
            sandbox.check_level(self.zygote.level, settings.require_sandbox)
            self.workplace = workplace(settings, self.zygote)
            opened.callback(self.workplace.close)
            self._tools = Tools.of(settings, self.builder, self.workplace.worker, cache_dir)
            opened.callback(self._tools.close)
            torch.set_num_threads(settings.cpu_threads)
            self._held = opened.pop_all()

    def evaluate(self, problem: Problem, solution: Solution, stage: Stage) -> Evaluation:
        """The verdict after going as far as `stage`. Raises EvaluatorError for faults of ours."""
        try:
            evaluation = _Session(self, problem, solution).run(stage)
            if stage is Stage.PROFILE:
                evaluation = profiled(self._tools, problem, solution, evaluation)
        except torch.OutOfMemoryError as error:
            raise EvaluatorError(f"the judge of {problem.name} has too little memory on the device: {error}") from error
        self.workplace.between()
        return evaluation

    def time_again(self, problem: Problem, solution: Solution, repeats: int) -> list[Timing]:
        """Times of a solution that is right, measured `repeats` times. Raises ValueError if it is not right."""
        return _Session(self, problem, solution).timings(repeats)

    def close(self) -> None:
        """End all workers and the zygote."""
        self._held.close()

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Wrong(Exception):
    """An output was wrong; ends the evaluation with a status that is not a fault."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Session:
    """One evaluation, filled in as it proceeds."""

    def __init__(self, judge: Judge, problem: Problem, solution: Solution) -> None:
        self._judge = judge
        self._settings = judge.settings
        self._problem = problem
        self._solution = solution
        self._seed = new_seed()
        self._reached = Stage.BUILD
        self._weights_rule = LOADED
        self._trials: Trials | None = None
        self._inputs_may_change = True
        self._timed_output_bytes = 0
        self._timing: Timing | None = None
        self._builds: list[Build] = []
        self._wall_s: dict[str, float] = {}
        self._log = ""

    def run(self, stage: Stage) -> Evaluation:
        """Go as far as `stage` or to the first fault."""
        try:
            return self._evaluation(self._proceed(stage))
        except _Wrong as wrong:
            return self._evaluation(wrong.status, str(wrong))
        except CandidateFault as fault:
            self._log = f"{fault.detail}\n{self._log}".strip()
            return self._evaluation(fault.status, fault.message, fault.fault)
        except NotCarried as foreign:
            text = f"problem {self._problem.name}: an input is a {foreign}, which cannot be handed to another process"
            return self._evaluation(Status.INVALID_PROBLEM, text)
        except ProblemError as error:
            return self._evaluation(Status.INVALID_PROBLEM, str(error))

    def timings(self, repeats: int) -> list[Timing]:
        """See `Judge.time_again`."""
        first = self.run(Stage.TIMING)
        if first.timing is None or self._trials is None:
            raise ValueError(f"{first.status}: {first.message}")
        timings = [first.timing]
        while len(timings) < repeats:
            self._judge.workplace.between()
            self._time(self._trials)
            assert self._timing is not None
            timings.append(self._timing)
        return timings

    def _evaluation(self, status: Status, message: str = "", fault: Fault | None = None) -> Evaluation:
        return Evaluation(
            status=status,
            stage=self._reached,
            message=message[:_MESSAGE_CHARS],
            fault=fault,
            tags=static_tags(self._solution.source, self._solution.language),
            builds=self._builds,
            correctness=self._correctness(),
            timing=self._timing if status.correct else None,
            environment=environment.describe(
                self._settings.device, self._settings.cpu_threads, self._judge.zygote.level
            ),
            problem=self._problem.name,
            solution_sha256=hashlib.sha256(self._solution.source.encode(errors="surrogatepass")).hexdigest(),
            wall_s={name: round(seconds, 4) for name, seconds in self._wall_s.items()},
            log=self._log[-_LOG_CHARS:],
        )

    def _correctness(self) -> Correctness | None:
        return None if self._trials is None else self._trials.correctness(self._weights_rule)

    def _proceed(self, stage: Stage) -> Status:
        loaded = LoadedProblem(self._problem, self._judge.workplace.device)
        oracle = Oracle(loaded, self._seed, self._settings.precision)
        self._setup = Setup.of(loaded, oracle, self._seed, self._settings.precision)
        with self._candidate() as candidate, self._clocked_hold():
            self._weights_rule = candidate.construct(self._setup)
            if stage is Stage.BUILD:
                return Status.PASSED
            self._reached = Stage.CORRECTNESS
            if oracle.given and self._weights_rule == SEEDED:
                raise _Wrong(Status.INCORRECT_STRUCTURE, unmatched(oracle.state, oracle.given))
            self._trials = trials = Trials(loaded, oracle, self._settings)
            with self._clocked("correctness"):
                self._check_draws(candidate, trials)
        if stage is Stage.CORRECTNESS:
            return Status.PASSED
        self._reached = Stage.TIMING
        return self._time(trials)

    @contextmanager
    def _clocked_hold(self) -> Iterator[None]:
        with ExitStack() as held:
            with self._clocked("queue"):
                held.enter_context(self._judge.workplace.held_for_calls())
            yield

    @contextmanager
    def _candidate(self) -> Iterator[WorkerArm]:
        """A fresh worker that has loaded the candidate."""
        with self._clocked("start"):
            arm = self._judge.workplace.arm(self._build, is_reference=False)
        opened = ExitStack()
        opened.callback(arm.close)
        try:
            arm.load(self._solution.source, self._solution.entry_point)
            yield arm
            opened.pop_all()
            self._judge.workplace.retire(arm)
        except (torch.OutOfMemoryError, ProblemError) as error:
            if self._judge.workplace.hoarded(opened.close):
                text = "it held so much of the device's memory that the evaluator had too little"
                raise CandidateFault(Status.OUT_OF_MEMORY, Fault.MEMORY_LIMIT, text) from error
            raise
        finally:
            opened.close()
            self._log = arm.worker.log
            self._wall_s["load"] = self._wall_s.get("load", 0.0) + arm.load_s

    @contextmanager
    def _reference(self) -> Iterator[WorkerArm]:
        """A worker like the candidate's for the problem's own Model; what goes wrong in it is the problem's fault."""
        arm = self._judge.workplace.arm(self._judge.builder.build, is_reference=True)
        with ExitStack() as opened:
            opened.callback(arm.close)
            arm.load(self._problem.source, "Model")
            yield arm
            opened.pop_all()
            self._judge.workplace.retire(arm)

    def _build(self, request: BuildRequest) -> BuildReply:
        with self._clocked("build"):
            reply = self._judge.builder.build(request)
        if reply.ok and reply.key not in {built.key for built in self._builds}:
            built = Build(name=reply.name, tier=reply.tier, cached=reply.cached, wall_s=reply.wall_s, key=reply.key)
            self._builds.append(built)
        return reply

    @contextmanager
    def _clocked(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self._wall_s[name] = self._wall_s.get(name, 0.0) + time.monotonic() - started

    def _check_draws(self, candidate: WorkerArm, trials: Trials) -> None:
        """Draws in batches of random size, as timed ones are; the first wrong output decides, and soon ends it."""
        plans = list(trials.plans)
        self._inputs_may_change = candidate.inputs_may_change = trials.reference_changes_inputs()
        wrong: Comparison | None = None
        while plans:
            count = min(1 + secrets.randbelow(_MAX_BATCH_DRAWS), len(plans)) if trials.small else 1
            batch = [trials.trial(plans.pop()) for _ in range(count)]
            self._timed_output_bytes += sum(trial.most_output_bytes for trial in batch if trial.plan.as_timed)
            candidate.most_output_bytes = max(trial.most_output_bytes for trial in batch)
            ticket_of = self._judge.workplace.ticket
            tickets = [ticket for trial in batch for ticket in [ticket_of(trial.inputs)] * trial.calls]
            outputs = iter(candidate.answers(tickets))
            for trial in batch:
                answers = list(itertools.islice(outputs, trial.calls))
                if wrong is not None and not trials.still_needed([trial.plan]):
                    continue
                comparison = trials.judge(trial, answers)
                if wrong is None and not comparison.passed:
                    wrong = comparison
            if wrong is not None:
                plans = trials.still_needed(plans)
        if wrong is not None:
            raise _Wrong(wrong.status, wrong.message)

    def _time(self, trials: Trials) -> Status:
        workplace = self._judge.workplace
        compiled = self._settings.timing.baseline == "compile"

        def check(batch: Sequence[list[Any]], expected: Sequence[Any], outputs: Sequence[Any]) -> None:
            comparison = trials.judge_timed(batch, expected, outputs)
            if comparison is not None:
                raise _Wrong(comparison.status, f"in a timed call: {comparison.message}")

        @contextmanager
        def fresh_pair() -> Iterator[tuple[WorkerArm, WorkerArm]]:
            with self._reference() as reference, self._candidate() as candidate:
                candidate.construct(self._setup)
                reference.construct(replace(self._setup, compiled=compiled))
                if compiled:
                    reference.first_call_s += self._settings.limits.build_s
                for arm in (reference, candidate):
                    # Whatever the judge does to one arm's buffers it does to the other's: caches keep traces of it.
                    arm.inputs_may_change = self._inputs_may_change
                    arm.most_output_bytes = self._timed_output_bytes
                    prepare(arm)
                yield reference, candidate

        with self._clocked("queue"):
            held = ExitStack()
            prepare = held.enter_context(workplace.held_for_timing())
        with held, self._clocked("timing"):
            timing, stable = workplace.time(fresh_pair, trials.timed_inputs, check)
            self._timing = replace(timing, baseline=self._settings.timing.baseline)
        return Status.PASSED if stable else Status.UNSTABLE_TIMING

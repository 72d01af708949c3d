"""The evaluator as everybody else sees it; loads no torch."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

import evaluation
from evaluation.disassembly.kernel_code import Disassembly
from evaluation.errors import EvaluatorError
from evaluation.profile.rates import MeasuredRoofline
from evaluation.sandbox.sandbox import clean_environment
from evaluation.serialize import from_plain, to_plain
from evaluation.settings import EvaluationSettings
from evaluation.verdict import Evaluation, Solution, Stage
from problems.problem import Problem

__all__ = ["Evaluates", "Evaluator", "EvaluatorError"]

_END_LIMIT_S = 10.0


class Evaluates(Protocol):
    """Whatever gives verdicts: one evaluator, or several that are shared."""

    settings: EvaluationSettings

    def evaluate(self, problem: Problem, solution: Solution, stage: Stage) -> Evaluation:
        """See `Evaluator.evaluate`."""
        ...

    def disassemble(self, problem: Problem, solution: Solution) -> Disassembly:
        """See `Evaluator.disassemble`."""
        ...

    def roofline(self) -> MeasuredRoofline:
        """See `Evaluator.roofline`."""
        ...


class Evaluator:
    """Has candidates judged by a server process that it starts when first needed. May be used by several threads.

    `settings` may be read; `cache_dir` keeps native builds. What the server and the problem files print
    goes to `log_path`, or to nowhere.
    """

    def __init__(self, settings: EvaluationSettings, cache_dir: Path, log_path: Path | None = None) -> None:
        self.settings = settings
        self._cache_dir = cache_dir
        self._log_path = log_path
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._last_id = 0

    def start(self) -> None:
        """Start the server now, so that it is ready when it is first asked."""
        with self._lock:
            if self._process is None:
                self._start()

    def evaluate(self, problem: Problem, solution: Solution, stage: Stage) -> Evaluation:
        """The verdict on one solution. A server that dies, or says that it can judge no more, is started anew once.

        Raises EvaluatorError for whatever is neither the candidate's fault nor the problem's.
        """
        request = {"problem": to_plain(problem), "solution": to_plain(solution), "stage": stage.value}
        return from_plain(Evaluation, self._answered(request)["evaluation"])

    def roofline(self) -> MeasuredRoofline:
        """What this machine's GPU was measured to do at most: kept from before, or measured now, in some seconds.

        Raises EvaluatorError as `evaluate` does, and where the settings' device is the CPU.
        """
        return from_plain(MeasuredRoofline, self._answered({"kind": "roofline"})["roofline"])

    def disassemble(self, problem: Problem, solution: Solution) -> Disassembly:
        """The machine code of the solution's native builds, which are built where they are not in the cache.

        Raises EvaluatorError as `evaluate` does.
        """
        request = {"kind": "disassemble", "problem": to_plain(problem), "solution": to_plain(solution)}
        return from_plain(Disassembly, self._answered(request)["disassembly"])

    def close(self) -> None:
        """End the server and all that it holds."""
        with self._lock:
            self._end()

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answered(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            answer = self._ask(request)
            if answer is None or "lost" in answer:
                self._end()
                answer = self._ask(request)
        if answer is None:
            raise EvaluatorError(f"the evaluation server ended twice on one request; see {self._log_path or 'a log'}")
        if "error" in answer:
            raise EvaluatorError(answer["error"])
        return answer

    def _ask(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """One request and its answer; None if the server ended instead."""
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        self._last_id += 1
        try:
            process.stdin.write(json.dumps({"id": self._last_id, **request}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line.endswith("\n"):
            self._end()
            return None
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _start(self) -> subprocess.Popen[str]:
        with self._log() as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "evaluation.server", str(self._cache_dir.resolve())],
                env=clean_environment(self.settings.cpu_threads),
                cwd=Path(evaluation.__file__).parents[1],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # A scheduling group of its own, so that the priority of a timed section concerns the judge alone.
                start_new_session=True,
                encoding="utf-8",
            )
        assert process.stdin is not None
        process.stdin.write(json.dumps(to_plain(self.settings)) + "\n")
        process.stdin.flush()  # so that it wakes up now, and not when it is first asked
        self._process = process
        return process

    @contextmanager
    def _log(self) -> Iterator[IO[bytes] | int]:
        if self._log_path is None:
            yield subprocess.DEVNULL
            return
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        with self._log_path.open("ab") as log:
            yield log

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

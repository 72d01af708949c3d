"""A judge behind pipes, `python -m evaluation.server CACHE_DIR`: one JSON object a line in, one a line out.

First line in: the settings. Then {"id", "problem", "solution", "stage"}, answered by {"id", "evaluation"}; the same
with "kind": "disassemble" for the stage, answered by {"id", "disassembly"}; or {"id", "kind": "roofline"}, answered by
{"id", "roofline"}. Any may be answered by {"id", "error"} for a fault of the evaluator, with "lost" where this process
can judge nothing any more. The other end is this project's own client; no candidate can write here.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from evaluation.building.toolchain import ToolchainError
from evaluation.errors import EvaluatorError, JudgeLost
from evaluation.sandbox import syscalls
from evaluation.serialize import from_plain, to_plain
from evaluation.settings import EvaluationSettings
from evaluation.verdict import Solution, Stage
from evaluation.worker.start import start_zygote
from problems.problem import Problem

if TYPE_CHECKING:
    from evaluation.judge import Judge

_OURS = (EvaluatorError, ToolchainError, OSError)


def main() -> None:
    """Serve until the client closes its end or dies."""
    syscalls.set_dumpable(False)
    answers = _take_stdout()
    settings = from_plain(EvaluationSettings, json.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_client, daemon=True).start()
    zygote = start_zygote(settings, Path(sys.argv[1]))
    # Imports torch, for two seconds; the zygote does the same meanwhile.
    from evaluation.judge import Judge

    try:
        with Judge(settings, Path(sys.argv[1]), zygote) as judge:
            _serve(answers, lambda request: _answer(judge, request))
    except _OURS as error:
        refusal = {"error": str(error)}
        _serve(answers, lambda _: refusal)


def _serve(answers: TextIO, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        answers.write(json.dumps({"id": request["id"], **answer(request)}) + "\n")
        answers.flush()


def _end_with_client() -> None:
    """End this process at once when the client is gone, also in the middle of an evaluation.

    Not by PR_SET_PDEATHSIG, which would fire when the client's *thread* that started this process ends.
    """
    poll = select.poll()
    poll.register(0, 0)
    poll.poll()
    os._exit(0)


def _take_stdout() -> TextIO:
    """The real stdout, with the name `stdout` bent to stderr: a problem file that prints must not break the lines."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _answer(judge: Judge, request: dict[str, Any]) -> dict[str, Any]:
    try:
        return _found(judge, request)
    except JudgeLost as error:
        traceback.print_exc()
        return {"error": str(error), "lost": True}
    except _OURS as error:
        traceback.print_exc()
        return {"error": str(error)}


def _found(judge: Judge, request: dict[str, Any]) -> dict[str, Any]:
    if request.get("kind") == "roofline":
        return {"roofline": to_plain(judge.roofline())}
    problem = from_plain(Problem, request["problem"])
    solution = from_plain(Solution, request["solution"])
    if request.get("kind") == "disassemble":
        return {"disassembly": to_plain(judge.disassemble(problem, solution))}
    return {"evaluation": to_plain(judge.evaluate(problem, solution, Stage(request["stage"])))}


if __name__ == "__main__":
    main()

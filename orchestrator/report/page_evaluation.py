"""The page of one evaluation by itself: what `kernelsweep evaluate` found, with no agent and no session."""

from __future__ import annotations

import hashlib
import json

from evaluation.serialize import to_plain
from evaluation.verdict import Evaluation
from orchestrator.report.page_blocks import (
    builds_block,
    environment_rows,
    precision_block,
    problem_title,
    verdict_kind,
)
from orchestrator.report.page_format import count
from orchestrator.report.page_html import render
from orchestrator.report.page_profile import profile_blocks
from orchestrator.report.page_rows import Block, Row
from orchestrator.report.page_timing import conditions_blocks, headline, timing_block
from orchestrator.report.page_turns import bounded
from problems.problem import Problem


def evaluation_page(evaluation: Evaluation, problem: Problem, source: str) -> str:
    """Return the whole page as text. Raises ValueError when `problem` or `source` is not what was judged."""
    sha256 = hashlib.sha256(source.encode()).hexdigest()
    if (evaluation.problem, evaluation.solution_sha256) != (problem.name, sha256):
        raise ValueError(
            f"the evaluation is of {evaluation.problem} and kernel {evaluation.solution_sha256[:12]}, "
            f"not of {problem.name} and {sha256[:12]}"
        )
    environment = [
        *environment_rows(evaluation),
        Row("problem sha256", problem.source_sha256),
        Row("kernel sha256", sha256),
    ]
    blocks: list[Block] = [timing_block(evaluation), *conditions_blocks(evaluation), precision_block(evaluation)]
    blocks += [*profile_blocks(evaluation), builds_block(evaluation), Block(title="environment", rows=environment)]
    return render(
        "evaluation.html.j2",
        title=problem_title(problem.name),
        file_name=f"{problem.name.rsplit('/', 1)[-1]}.py",
        status=evaluation.status.value,
        kind=verdict_kind(evaluation.status.value),
        headline=headline(evaluation),
        message=evaluation.message,
        blocks=blocks,
        reference=problem.source,
        kernel=source,
        evaluation_json=json.dumps(to_plain(evaluation), indent=1, ensure_ascii=False),
        bounded=bounded,
        count=count,
    )

"""Who is to blame: the candidate (CandidateFault, becomes a Status) or the evaluator (EvaluatorError, is retried)."""

from __future__ import annotations

from evaluation.verdict import Fault, Status


class EvaluatorError(Exception):
    """The evaluator could not do its work; says nothing about the candidate. One sentence for the user."""


class JudgeLost(EvaluatorError):
    """This process can judge nothing any more, as its zygote or its device's context is dead: another must."""


class CandidateFault(Exception):
    """The candidate ended the evaluation by what it did.

    `message` may be shown to a model: bounded, without input values. `detail` is for the operator's log, untrusted.
    """

    def __init__(self, status: Status, fault: Fault | None, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.fault = fault
        self.message = message
        self.detail = detail

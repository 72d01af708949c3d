"""Every way in which a candidate can end has a status of its own, in bounded time, and touches nobody else."""

import time

import pytest

from evaluation.verdict import Fault, Solution, Stage, Status
from evaluation.worker.processes import descendants

FAULTS = {
    "early_exit": (Status.RUNTIME_ERROR, Fault.EXITED),
    "sys_exit": (Status.RUNTIME_ERROR, Fault.EXITED),
    "segfault": (Status.RUNTIME_ERROR, Fault.KILLED_BY_SIGNAL),
    "kills_itself": (Status.RUNTIME_ERROR, Fault.KILLED_BY_SIGNAL),
    "raises": (Status.RUNTIME_ERROR, Fault.EXCEPTION),
    "import_error": (Status.RUNTIME_ERROR, Fault.EXCEPTION),
    "fork_bomb": (Status.RUNTIME_ERROR, Fault.PROCESS_LIMIT),
    "floods_output": (Status.RUNTIME_ERROR, Fault.OUTPUT_LIMIT),
    "memory_hog": (Status.OUT_OF_MEMORY, Fault.MEMORY_LIMIT),
    "memory_error": (Status.OUT_OF_MEMORY, Fault.MEMORY_LIMIT),
    "garbage_on_socket": (Status.TAMPERING, Fault.PROTOCOL),
    "closes_socket": (Status.TAMPERING, Fault.PROTOCOL),
    "no_class": (Status.COMPILE_ERROR, None),
    "writes_inputs": (Status.INCORRECT_STRUCTURE, None),
    "half_result": (Status.INCORRECT_STRUCTURE, None),
    "subclass": (Status.INCORRECT_STRUCTURE, None),
    "zeros": (Status.INCORRECT_VALUES, None),
    "first_answer_only": (Status.INCORRECT_VALUES, None),
    "ignores_affine": (Status.INCORRECT_VALUES, None),
}
HONEST = ["correct", "other_names", "transposed_memory", "reuses_output", "leaves_child"]


@pytest.mark.parametrize("name", FAULTS)
def test_fault_has_its_own_status_and_the_next_candidate_is_untouched(judge, affine, candidate, name, monkeypatch):
    if name == "memory_hog":
        monkeypatch.setattr(judge.settings.limits, "memory_bytes", 700 * 2**20)
    evaluation = judge.evaluate(affine, candidate(name), Stage.CORRECTNESS)
    assert (evaluation.status, evaluation.fault) == FAULTS[name], evaluation.message
    assert evaluation.message
    assert len(evaluation.message) <= 4000
    assert judge.evaluate(affine, candidate("correct"), Stage.CORRECTNESS).status is Status.PASSED


def test_an_answer_before_the_work_is_done_is_no_answer(judge, affine, candidate):
    """It is taken for the output, unless a second one comes with it."""
    evaluation = judge.evaluate(affine, candidate("answers_early"), Stage.CORRECTNESS)
    assert evaluation.status in (Status.INCORRECT_STRUCTURE, Status.TAMPERING)
    assert judge.evaluate(affine, candidate("correct"), Stage.CORRECTNESS).status is Status.PASSED


@pytest.mark.parametrize("name", HONEST)
def test_honest_candidates_pass(judge, affine, candidate, name):
    evaluation = judge.evaluate(affine, candidate(name), Stage.CORRECTNESS)
    assert evaluation.status is Status.PASSED, evaluation.message
    assert evaluation.correctness.draws_passed == evaluation.correctness.draws_total == 3
    assert evaluation.correctness.weights_rule == ("ordered" if name == "other_names" else "loaded")


def test_syntax_error_is_a_compile_error_that_names_the_line(judge, affine):
    evaluation = judge.evaluate(affine, Solution(source="import torch\ndef ModelNew(:\n"), Stage.BUILD)
    assert (evaluation.status, evaluation.stage) == (Status.COMPILE_ERROR, Stage.BUILD)
    assert "line 2" in evaluation.message


def test_exception_names_the_candidates_own_line_and_keeps_the_traceback_for_the_log(judge, affine, candidate):
    evaluation = judge.evaluate(affine, candidate("raises"), Stage.CORRECTNESS)
    assert "ValueError: tiles do not divide" in evaluation.message
    assert "in forward" in evaluation.message
    assert "worker.py" not in evaluation.message
    assert "main.py" in evaluation.log


def test_a_candidate_that_never_returns_is_ended_at_the_limit(judge, affine, candidate, monkeypatch):
    monkeypatch.setattr(judge.settings.limits, "call_s", 1.0)
    evaluation = judge.evaluate(affine, candidate("never_returns"), Stage.CORRECTNESS)
    assert (evaluation.status, evaluation.fault) == (Status.TIMEOUT, Fault.WALL_LIMIT)
    assert evaluation.message == "it did not answer within 1 s"


@pytest.mark.parametrize("name", ["leaves_child", "fork_bomb"])
def test_nothing_of_a_candidate_survives_it(judge, affine, candidate, name):
    judge.evaluate(affine, candidate(name), Stage.CORRECTNESS)
    deadline = time.monotonic() + 60
    while descendants(judge.zygote.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert descendants(judge.zygote.pid) == []

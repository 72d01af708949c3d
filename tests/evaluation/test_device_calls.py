"""Calls on a CUDA device: workers, gates, faults and times, as the judge sees them."""

from statistics import median

import pytest
import torch

from evaluation.errors import CandidateFault
from evaluation.judge import Judge
from evaluation.settings import EvaluationSettings, LimitSettings
from evaluation.verdict import Fault, Solution, Stage, Status
from evaluation.worker.arm import Setup
from evaluation.worker.ticket import Ticket
from problems.library import Library

pytestmark = pytest.mark.gpu

SOURCE = """
import os
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        {body}
"""


@pytest.fixture(scope="module")
def cuda_judge(tmp_path_factory):
    settings = EvaluationSettings.on("cuda", limits=LimitSettings(call_s=3.0, load_s=20.0))
    with Judge(settings, tmp_path_factory.mktemp("cache")) as judge:
        yield judge


@pytest.fixture
def arm_of(cuda_judge):
    opened = []

    def start(body):
        arm = cuda_judge.workplace.arm(cuda_judge.builder.build, is_reference=False)
        opened.append(arm)
        arm.load(SOURCE.format(body=body), "ModelNew")
        arm.construct(Setup(seed=1, init_inputs=[], weights={}, given=[], dtype=torch.float32))
        arm.most_output_bytes = 2**24
        return arm

    yield start
    for arm in opened:
        arm.close()
    cuda_judge.workplace.between()


def tickets(count, size=4096):
    return [Ticket.of([torch.randn(8, size, device="cuda")], "cuda") for _ in range(count)]


def test_outputs_are_the_calls_own_gated_plain_and_with_decoys(arm_of):
    arm = arm_of("return x.mean(0)")
    asked = tickets(6)
    for outputs in (
        arm.run_gated(asked).outputs,
        arm.run(asked).outputs,
        arm.run_gated(asked, tickets(6)).outputs,
    ):
        for ticket, output in zip(asked, outputs, strict=True):
            assert torch.allclose(output, ticket.inputs[0].mean(0), atol=1e-5)


@pytest.mark.parametrize("size", [2**10, 2**22])
def test_the_judges_clock_agrees_with_the_events(arm_of, size):
    arm = arm_of("return x.mean(0)")
    asked = tickets(8, size)
    arm.run_gated(asked)
    run, empty = arm.run_gated(asked), arm.echo_gated(asked)
    events_us = sorted(run.stream_us)[4] - sorted(empty.stream_us)[4]
    marked = [sorted(call.marked_s for call in one.calls)[4] for one in (run, empty)]
    assert (marked[0] - marked[1]) * 1e6 == pytest.approx(events_us, rel=0.05, abs=3.0)


def test_work_in_other_streams_is_part_of_the_span(arm_of):
    body = "s = torch.cuda.Stream()\n        with torch.cuda.stream(s):\n            y = x @ x.T @ x\n        return y"
    arm = arm_of(body)
    asked = tickets(6, 8192)
    arm.run_gated(asked)
    run = arm.run_gated(asked)
    assert median(run.all_us) > 4 * median(run.stream_us)


def test_one_that_waits_for_the_device_is_soon_not_gated_any_more(arm_of):
    arm = arm_of("torch.cuda.synchronize(); return x + 1")
    arm.run_gated(tickets(5))
    assert not arm.gated
    assert not any(call.expired for call in arm.run_gated(tickets(3)).calls)


FAULTS = {
    "return x[torch.full((5,), 10**9, device='cuda')]": (Status.RUNTIME_ERROR, Fault.EXCEPTION),
    "torch.cuda._sleep(10**12); return x": (Status.TIMEOUT, Fault.WALL_LIMIT),
    "os._exit(0)": (Status.RUNTIME_ERROR, Fault.EXITED),
    "import ctypes; ctypes.string_at(0)": (Status.RUNTIME_ERROR, Fault.KILLED_BY_SIGNAL),
    "return torch.empty(10**13, device='cuda')": (Status.OUT_OF_MEMORY, Fault.MEMORY_LIMIT),
}


@pytest.mark.parametrize("body", FAULTS)
def test_a_fault_has_its_own_status_and_the_next_one_is_untouched(arm_of, body):
    with pytest.raises(CandidateFault) as found:
        arm_of(body).run_gated(tickets(2))
    assert (found.value.status, found.value.fault) == FAULTS[body]
    assert torch.equal(arm_of("return x + 1").run(tickets(1)).outputs[0].isfinite().all(), torch.tensor(True).cuda())


def test_equal_arms_come_out_as_one(cuda_judge):
    problem = Library("own").load("24")
    source = problem.source.replace("class Model(", "class ModelNew(").replace("super(Model,", "super(ModelNew,")
    found = cuda_judge.evaluate(problem, Solution(source=source), Stage.TIMING)
    assert found.status in (Status.PASSED, Status.UNSTABLE_TIMING), found.message
    timing = found.timing
    assert timing.speedup_low < 1 < timing.speedup_high * 1.05
    assert timing.attested_us == pytest.approx(timing.candidate.median_us, abs=3.0)
    assert timing.end_to_end is not None
    assert timing.launch_bound


def test_a_compiled_baseline_is_what_the_candidate_is_timed_against(cuda_judge, monkeypatch):
    problem = Library("own").load("48")
    source = problem.source.replace("class Model(", "class ModelNew(").replace("super(Model,", "super(ModelNew,")
    monkeypatch.setattr(cuda_judge.settings.timing, "baseline", "compile")
    timing = cuda_judge.evaluate(problem, Solution(source=source), Stage.TIMING).timing
    assert timing.baseline == "compile"
    # Three operators that torch fuses into one.
    assert timing.speedup < 1

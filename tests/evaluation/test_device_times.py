"""From what was measured of a pair on a device to its times; no device is needed for that."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from evaluation.timing.device_bench import EMPTY_KERNEL_US, Bench
from evaluation.worker.device_arm import DeviceCall, GatedRun
from evaluation.worker.ticket import Ticket

EVENTS_US = 1.5
"""What events add to a span here."""
MARK_US, HELD_US = 6.0, 25.0
"""What the judge's clock needs beside the work, until the mark and until it holds the output."""


@dataclass(kw_only=True)
class Recorded:
    """An arm of which nothing is asked but what came of its calls."""

    gated: bool = True


def run(work_us, *, span_us=None, beyond_us=0.5, in_vain=False):
    """One block's calls; `span_us`: what the events say instead of the truth."""
    noise = np.random.default_rng(len(work_us)).normal(0, 0.02, len(work_us))
    calls = [
        DeviceCall(
            output=None,
            inputs=None,
            posted_s=(us + 60) * 1e-6,
            opened_s=(us + HELD_US) * 1e-6,
            marked_s=(us + MARK_US) * 1e-6,
            in_vain=in_vain,
        )
        for us in work_us
    ]
    spans = [us + EVENTS_US + more if span_us is None else span_us for us, more in zip(work_us, noise, strict=True)]
    return GatedRun(calls=calls, stream_us=spans, all_us=[span + beyond_us for span in spans])


def bench(reference_us, candidate_us, blocks=12, **candidate):
    made = Bench(reference=Recorded(), candidate=Recorded(), next_batch=None, check=None)
    made.tickets = [Ticket.of([torch.zeros(4)])]
    for _ in range(blocks):
        made.ours.take(run([reference_us] * 8))
        made.theirs.take(run([candidate_us] * 8, **candidate))
        empty = run([EMPTY_KERNEL_US] * 6)
        made.empty.take(empty)
        for side in (made.ours, made.theirs):
            side.empty_us.append(float(np.mean(empty.stream_us)))
            side.plain_us.append(50.0)
    return made


def test_what_events_add_is_taken_off():
    ours, theirs = bench(20.0, 5.0).samples_us()
    assert np.median(ours) == pytest.approx(20, abs=0.1) and np.median(theirs) == pytest.approx(5, abs=0.1)


def test_streams_that_end_later_count():
    _, theirs = bench(20.0, 5.0, beyond_us=14.5).samples_us()
    assert np.median(theirs) == pytest.approx(19, abs=0.1)


@pytest.mark.parametrize("span_us", [0.0, 1e-300, 1.0])
def test_the_judges_clock_takes_the_place_of_spans_that_say_much_less(span_us):
    found = bench(100.0, 100.0, span_us=span_us)
    assert found.forged
    assert np.median(found.samples_us()[1]) == pytest.approx(100, abs=1)


def test_equal_arms_are_equal_where_the_candidates_events_are_forged():
    found = bench(3.5, 3.5, span_us=0.0)
    assert found.forged
    ours, theirs = found.samples_us()
    assert np.median(ours) / np.median(theirs) == pytest.approx(1, abs=0.02)


def test_honest_work_in_several_streams_is_believed():
    """The judge's clock says 2.5 us more of it."""
    found = bench(9.1, 9.1, span_us=6.6 + EVENTS_US)
    assert not found.forged


@pytest.mark.parametrize("span_us", [0.0, 1e-300, 9e7])
def test_times_are_positive_and_finite_whatever_the_candidate_says(span_us):
    found = bench(4.0, 4.0, span_us=span_us, beyond_us=0.0)
    theirs = found.samples_us()[1]
    assert min(theirs) > 0 and np.isfinite(theirs).all()
    assert np.isfinite(np.log(theirs)).all()


def test_a_call_in_vain_that_takes_longer_is_what_the_others_are_charged():
    found = bench(100.0, 100.0)
    found.theirs = bench(100.0, 3.0).theirs
    found.take_in_vain(run([100.0] * 12, in_vain=True))
    assert found.forged
    assert np.median(found.samples_us()[1]) == pytest.approx(100, abs=1)


def test_forged_events_of_calls_in_vain_leave_what_the_judge_needs_to_hold_an_output():
    found = bench(500.0, 500.0)
    found.theirs = bench(500.0, 3.0).theirs
    found.take_in_vain(run([500.0] * 12, span_us=EVENTS_US + 3.0, in_vain=True))
    assert found.forged
    assert np.median(found.samples_us()[1]) > 400

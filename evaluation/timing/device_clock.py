"""The clock on a device: device time and end-to-end time, in alternating blocks of reference and candidate.

Device time is the span between events around a call whose host time is hidden by a gate, on a device whose L2 cache
holds nothing (evaluation/device/harness.cu). An empty kernel between the same events is measured too, and what its
span is above the empty kernel's own duration is taken off every span: that is what events cost, a tenth of a
microsecond more in one process than in another. Of the candidate's process it is believed within narrow bounds. Where
other streams end later than the entry stream, the span goes on until they have.

The events are the candidate's to forge. So each call is also timed by the judge: from opening the gate until the device
marks the end in the page, exact to a microsecond, and until the judge holds the output, exact to tens; both less the
same for the reference's empty kernel. A candidate that forges the mark too is left those tens. The lower end of the
speed-up's interval holds that time too, and a candidate whose events say much less is charged by it.

End-to-end time is that of plain calls by the judge's clock alone, as on the CPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import numpy as np

from evaluation.settings import TimingSettings
from evaluation.timing.device_bench import Bench
from evaluation.timing.pair import Batch, Check
from evaluation.timing.statistics import latency, speedup
from evaluation.verdict import EndToEnd, Timing
from evaluation.worker.device_arm import DeviceArm

_PROCESS_SPREAD, _PROCESS_SPREAD_US = 0.0003, 0.13
"""Standard deviation of log(time) ratios between two processes with the same code: a share, and microseconds beside,
relative to the time. On an H200 it was 0.13 us at 2 us, 0.09 at 15, 0.14 at 115 and 0.11 at 1400: where in memory a
process's code and parameters lie decides how far they are from a processor. Where its inputs lie makes no difference:
16 processes were 0.10 us apart (standard deviation) with inputs at one place and at many."""
_SPREAD_WEIGHT = 16

OpenPair = Callable[[], AbstractContextManager[tuple[DeviceArm, DeviceArm]]]


def time_on_device(
    open_pair: OpenPair, next_batch: Callable[[int], Batch], check: Check, settings: TimingSettings
) -> tuple[Timing, bool]:
    """As `clock.time_arms`, with arms on a device."""
    started = time.monotonic()
    benches: list[Bench] = []
    calls = 0
    while len(benches) < settings.process_pairs:
        with open_pair() as (reference, candidate):
            bench = Bench(reference=reference, candidate=candidate, next_batch=next_batch, check=check)
            bench.begin()
            calls = calls or bench.choose_calls()
            bench.warm_up(calls)
            benches.append(bench)
            bench.measure(settings)
    samples = [bench.samples_us() for bench in benches]
    theirs = latency([sample_us for _, candidates in samples for sample_us in candidates])
    spread = _PROCESS_SPREAD + _PROCESS_SPREAD_US / theirs.median_us
    ratio = speedup(samples, spread, _SPREAD_WEIGHT)
    attested_us = _attested_us(benches)
    end_to_end = _end_to_end(benches)
    own_us = max(
        float(np.median([bench.events_us(bench.theirs) - bench.events_us(bench.ours) for bench in benches])), 0
    )
    slowest_us = max(theirs.median_us + own_us, end_to_end.candidate.low_us if attested_us is None else attested_us)
    allowance = slowest_us / theirs.median_us
    events_us = float(np.median([bench.events_us(bench.ours) for bench in benches]))
    timing = Timing(
        candidate=theirs,
        reference=latency([sample_us for references, _ in samples for sample_us in references]),
        speedup=ratio.value,
        speedup_low=min(ratio.low, ratio.value / allowance),
        speedup_high=ratio.high,
        calls_per_block=calls,
        process_pairs=len(benches),
        clock=(
            f"device time between events behind a gate, cold L2 cache, less {events_us:.2f} us that an empty kernel's "
            "span is above its duration; bounded by the judge's clock"
            + ("; the candidate's events said much less and are not believed" if any(b.forged for b in benches) else "")
            + _ungated(benches)
        ),
        wall_s=time.monotonic() - started,
        end_to_end=end_to_end,
        attested_us=attested_us,
    )
    # By so much the shortest kernels always differ, which more measuring would not change.
    return timing, ratio.relative_half_width <= settings.stable_interval + spread


def _ungated(benches: Sequence[Bench]) -> str:
    """Words for the record about arms whose span has waits of their own in it."""
    pairs = (("reference", [b.reference for b in benches]), ("candidate", [b.candidate for b in benches]))
    names = [name for name, arms in pairs if not all(arm.gated for arm in arms)]
    return f"; not gated, as its call waits for the device: {' and '.join(names)}" if names else ""


def _attested_us(benches: Sequence[Bench]) -> float | None:
    attested = [bench.attested_us() for bench in benches]
    lows = [interval.low for interval in attested if interval is not None]
    return None if len(lows) < len(benches) else max(float(np.median(lows)), 0.0)


def _end_to_end(benches: Sequence[Bench]) -> EndToEnd:
    ratio = speedup([(bench.ours.plain_us, bench.theirs.plain_us) for bench in benches])
    return EndToEnd(
        candidate=latency([us for bench in benches for us in bench.theirs.plain_us]),
        reference=latency([us for bench in benches for us in bench.ours.plain_us]),
        speedup=ratio.value,
        speedup_low=ratio.low,
        speedup_high=ratio.high,
    )

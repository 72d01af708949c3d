"""The clock on a device: device time and end-to-end time, in alternating blocks of reference and candidate.

Device time is the span between events around a call whose host time is hidden by a gate, on a device whose L2 cache
holds nothing (evaluation/device/harness.cu). An empty kernel between the same events is measured too, by the
reference's worker, and what its span is above the empty kernel's own duration is taken off every span: that is what
events cost. Where other streams end later than the entry stream, until they have.

The events are the candidate's to forge. So each call is also timed by the judge, from opening the gate until it holds
the output, less the same for the empty kernel: exact to a few microseconds only, but not the candidate's to say. The
lower end of the speed-up's interval holds that time too, and a candidate whose events say much less is charged by it.

End-to-end time is that of plain calls by the judge's clock alone, as on the CPU.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import numpy as np

from evaluation.correctness.nested import tensors
from evaluation.device.harness import SLOTS
from evaluation.settings import TimingSettings
from evaluation.timing.clock import Batch, Check
from evaluation.timing.statistics import MIN_SAMPLES, Interval, latency, median_interval, speedup
from evaluation.verdict import EndToEnd, Timing
from evaluation.worker.device_arm import DeviceArm, GatedRun
from evaluation.worker.ticket import Ticket

EMPTY_KERNEL_US = 0.61
"""Duration of an empty kernel by CUPTI on an H200."""
PROCESS_SPREAD = 0.002
"""As in `statistics`, for device time."""
_BLOCK_WALL_S = 0.012
"""Seconds that a block of one arm should take, all that surrounds its calls included."""
_BLOCK_BYTES = 2 * 2**30
_FIRST_CALLS = 4
"""Enough for what is compiled or loaded by the first ones, and to find out who cannot be gated."""
_PLAIN_CALLS = 4
_EMPTY_CALLS = 6
_SIDE_US = 1.5
"""Streams that end later than this after the entry stream, beyond what the empty kernel's do, count."""
_FORGED = 1.15
"""Times above the events' say, beside _FORGED_US, at which the judge's clock takes its place."""
_FORGED_US = 8.0
_ELAPSED_FACTOR = 2

OpenPair = Callable[[], AbstractContextManager[tuple[DeviceArm, DeviceArm]]]


def target_interval(latency_us: float) -> float:
    """Half-width of the speed-up's interval, relative to it, at which measuring stops early."""
    if latency_us < 10:
        return 0.02
    return 0.01 if latency_us < 50 else 0.005


def time_on_device(
    open_pair: OpenPair, next_batch: Callable[[int], Batch], check: Check, settings: TimingSettings
) -> tuple[Timing, bool]:
    """As `clock.time_arms`, with arms on a device."""
    started = time.monotonic()
    benches: list[_Bench] = []
    calls = 0
    while len(benches) < settings.process_pairs:
        with open_pair() as (reference, candidate):
            bench = _Bench(reference=reference, candidate=candidate, next_batch=next_batch, check=check)
            calls = calls or bench.choose_calls()
            bench.warm_up(calls)
            benches.append(bench)
            bench.measure(settings)
    samples = [bench.samples_us() for bench in benches]
    ratio = speedup(samples, PROCESS_SPREAD)
    theirs = latency([sample_us for _, candidates in samples for sample_us in candidates])
    attested_us = _attested_us(benches)
    end_to_end = _end_to_end(benches)
    slowest_us = end_to_end.candidate.low_us if attested_us is None else attested_us
    allowance = max(slowest_us / theirs.median_us, 1.0)
    empty_us = float(np.median([bench.empty_us for bench in benches]))
    timing = Timing(
        candidate=theirs,
        reference=latency([sample_us for references, _ in samples for sample_us in references]),
        speedup=ratio.value,
        speedup_low=min(ratio.low, ratio.value / allowance),
        speedup_high=ratio.high,
        calls_per_block=calls,
        process_pairs=len(benches),
        clock=(
            f"device time between events behind a gate, cold L2 cache, less {empty_us - EMPTY_KERNEL_US:.2f} us that "
            "an empty kernel's span is above its duration; bounded by the judge's clock"
            + ("; the candidate's events said much less and are not believed" if _forged(benches) else "")
        ),
        wall_s=time.monotonic() - started,
        end_to_end=end_to_end,
        attested_us=attested_us,
    )
    return timing, ratio.relative_half_width <= settings.stable_interval


@dataclass(slots=True, kw_only=True)
class _Side:
    """What was measured of one arm, a value a block."""

    stream_us: list[float] = field(default_factory=list)
    beyond_us: list[float] = field(default_factory=list)
    """Until every stream was done, beyond the entry stream."""
    opened_us: list[float] = field(default_factory=list)
    plain_us: list[float] = field(default_factory=list)

    def take(self, run: GatedRun) -> None:
        """One block: means over its calls."""
        self.stream_us.append(float(np.mean(run.stream_us)))
        self.beyond_us.append(float(np.mean(run.all_us)) - self.stream_us[-1])
        self.opened_us.append(float(np.mean([call.opened_s for call in run.calls])) * 1e6)


@dataclass(slots=True, kw_only=True)
class _Bench:
    """One pair of processes, and their counted blocks."""

    reference: DeviceArm
    candidate: DeviceArm
    next_batch: Callable[[int], Batch]
    check: Check
    tickets: list[Ticket] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    measured_s: float = 0.0
    calls: int = 0
    candidate_first: bool = field(default_factory=lambda: secrets.randbelow(2) == 1)
    ours: _Side = field(default_factory=_Side)
    theirs: _Side = field(default_factory=_Side)
    empty: _Side = field(default_factory=_Side)

    @property
    def _arms(self) -> tuple[DeviceArm, DeviceArm]:
        """In the order of their turn."""
        pair = (self.reference, self.candidate)
        return pair[::-1] if self.candidate_first else pair

    def _batch(self, calls: int) -> Batch:
        batch = self.next_batch(calls)
        self.tickets = [Ticket.of(inputs, "cuda") for inputs in batch]
        self.candidate_first = not self.candidate_first
        return batch

    def gated_pair(self, calls: int) -> tuple[GatedRun, GatedRun]:
        """One block of each arm on the same inputs, reference's first in the answer."""
        batch = self._batch(calls)
        started = time.monotonic()
        runs = [arm.run_gated(self.tickets) for arm in self._arms]
        self.measured_s += time.monotonic() - started
        ours, theirs = runs[::-1] if self.candidate_first else runs
        self.check(batch, ours.outputs, theirs.outputs)
        return ours, theirs

    def plain_pair(self, calls: int) -> None:
        """A block of each arm in plain calls, less echoes of the reference's."""
        batch = self._batch(calls)
        runs = [arm.run(self.tickets) for arm in self._arms]
        echoes = [arm.echo(self.tickets) for arm in self._arms]
        ours, theirs = runs[::-1] if self.candidate_first else runs
        echo_s = echoes[1] if self.candidate_first else echoes[0]
        self.check(batch, ours.outputs, theirs.outputs)
        for side, run in ((self.ours, ours), (self.theirs, theirs)):
            side.plain_us.append(max(run.wall_s - echo_s, 0.1 * run.wall_s) / calls * 1e6)

    def empty_block(self) -> None:
        """Empty kernels in place of the last block's calls, in both arms; the reference's count."""
        few = self.tickets[:_EMPTY_CALLS]
        runs = [arm.echo_gated(few) for arm in self._arms]
        self.empty.take(runs[1] if self.candidate_first else runs[0])

    def choose_calls(self) -> int:
        """Calls per block, by the time and the memory that one takes."""
        for _ in range(_FIRST_CALLS):
            self.gated_pair(1)
        started = time.monotonic()
        ours, _ = self.gated_pair(1)
        wall_s = (time.monotonic() - started) / 2
        held = tensors([self.tickets[0].inputs, ours.outputs])
        most = max(1, _BLOCK_BYTES // max(sum(tensor.nbytes for tensor in held), 1))
        return max(1, min(SLOTS, most, round(_BLOCK_WALL_S / wall_s)))

    def warm_up(self, calls: int) -> None:
        """A number of calls that a candidate cannot foresee lies before the first one that counts."""
        for _ in range(1 + secrets.randbelow(2)):
            self.gated_pair(1 + secrets.randbelow(calls))
        self.plain_pair(1)
        self.empty_block()
        self.ours, self.theirs, self.empty = _Side(), _Side(), _Side()
        self.calls, self.measured_s, self.started = calls, 0.0, time.monotonic()

    def measure(self, settings: TimingSettings) -> None:
        """This pair's share of the blocks and of the time, in rounds B C C B with empty kernels and plain calls."""
        share_s = settings.budget_s / settings.process_pairs
        share = max(math.ceil(settings.min_blocks / settings.process_pairs), MIN_SAMPLES)
        while True:
            for _ in range(2):
                ours, theirs = self.gated_pair(self.calls)
                self.ours.take(ours)
                self.theirs.take(theirs)
                self.empty_block()
            self.plain_pair(min(self.calls, _PLAIN_CALLS))
            blocks = len(self.ours.stream_us)
            elapsed_s = time.monotonic() - self.started
            spent = self.measured_s >= share_s or elapsed_s >= _ELAPSED_FACTOR * share_s
            if blocks >= share and (spent or self._narrow(settings)):
                return

    def _narrow(self, settings: TimingSettings) -> bool:
        references, candidates = self.samples_us()
        ratio = median_interval(np.log(np.array(references) / np.array(candidates)))
        wanted = min(settings.target_interval, target_interval(min(np.median(references), np.median(candidates))))
        return (ratio.high - ratio.low) / 2 <= wanted

    @property
    def empty_us(self) -> float:
        """Span of an empty kernel."""
        return float(np.median(self.empty.stream_us))

    def samples_us(self) -> tuple[list[float], list[float]]:
        """Device time per block, the reference's and the candidate's."""
        candidates = self._device_us(self.theirs)
        if self.candidate.gated and self.forged:
            candidates = [max(us, EMPTY_KERNEL_US) for us in self._opened_us(self.theirs)]
        return self._device_us(self.ours), candidates

    def _device_us(self, side: _Side) -> list[float]:
        overhead_us = self.empty_us - EMPTY_KERNEL_US
        usual_us = float(np.median(self.empty.beyond_us))
        late_us = [max(beyond - usual_us, 0.0) for beyond in side.beyond_us]
        counted_us = [late if late > _SIDE_US else 0.0 for late in late_us]
        spans = zip(side.stream_us, counted_us, strict=True)
        return [max(stream + late - overhead_us, 0.1 * stream) for stream, late in spans]

    def _opened_us(self, side: _Side) -> list[float]:
        """By the judge's clock alone."""
        empty_us = float(np.median(self.empty.opened_us))
        return [opened - empty_us + EMPTY_KERNEL_US for opened in side.opened_us]

    def attested_us(self) -> Interval | None:
        """The candidate's time by the judge's clock; None where no gate kept its work from beginning early."""
        if not self.candidate.gated:
            return None
        return median_interval(np.array(self._opened_us(self.theirs)))

    @property
    def forged(self) -> bool:
        """Whether the candidate's events say far less than the judge's clock."""
        attested = self.attested_us()
        claimed_us = float(np.median(self._device_us(self.theirs)))
        return attested is not None and attested.low > _FORGED * claimed_us + _FORGED_US


def _forged(benches: Sequence[_Bench]) -> bool:
    return any(bench.forged for bench in benches)


def _attested_us(benches: Sequence[_Bench]) -> float | None:
    attested = [bench.attested_us() for bench in benches]
    lows = [interval.low for interval in attested if interval is not None]
    return None if len(lows) < len(benches) else max(float(np.median(lows)), 0.0)


def _end_to_end(benches: Sequence[_Bench]) -> EndToEnd:
    ratio = speedup([(bench.ours.plain_us, bench.theirs.plain_us) for bench in benches])
    return EndToEnd(
        candidate=latency([us for bench in benches for us in bench.theirs.plain_us]),
        reference=latency([us for bench in benches for us in bench.ours.plain_us]),
        speedup=ratio.value,
        speedup_low=ratio.low,
        speedup_high=ratio.high,
    )

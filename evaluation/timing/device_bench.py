"""One pair of processes on a device: its blocks, and what they come to. See `device_clock`."""

from __future__ import annotations

import itertools
import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from evaluation.correctness.nested import tensors
from evaluation.device.harness import SLOTS
from evaluation.settings import TimingSettings
from evaluation.timing.pair import Pair
from evaluation.timing.statistics import MIN_SAMPLES, Interval, median_interval
from evaluation.worker.device_arm import DeviceArm, GatedRun
from evaluation.worker.ticket import Ticket

EMPTY_KERNEL_US = 0.61
"""Duration of an empty kernel by CUPTI on an H200."""
_EMPTY_DIFFERS_US = 0.3
"""An empty kernel's span in the candidate's process counts this far from the reference's at most."""
_BLOCK_WALL_S = 0.008
"""Seconds that the calls of a block of one arm should take."""
_COUNTED_FROM = 1
"""The first call of a block comes after kernels of the judge, with empty caches of instructions, and is not counted."""
_MANY_CALLS = 4
"""In blocks of fewer, whose calls are long, it is."""
_BLOCK_BYTES = 2 * 2**30
_FIRST_CALLS = 4
"""Enough for what is compiled or loaded by the first ones, and to find out who cannot be gated."""
_PLAIN_CALLS = 4
_EMPTY_CALLS = 6
_HELD_US = 60.0
"""What the judge needs to get hold of an output varies by tens of microseconds: whether the device must change from one
process to another, and when it does. So much less is charged."""
_CHANGED_US = 2.0
"""What a call may take longer when the device has just changed from the judge to its process."""
_SIDE_US = 1.5
"""Streams that end later than this after the entry stream, beyond what the empty kernel's do, count."""
_FORGED = ((1.15, 8.0), (1.6, 1.2))
"""Where the judge's clock says more than so many times what the events say and so many microseconds, it takes their
place. Honest candidates with several streams were seen to be 1.5 times and 0.5 us above, others 0.7 us, on an H200."""
_LEAST_US = 0.1
"""Spans of less are told by nothing, and times must be positive to be compared."""


def target_interval(latency_us: float) -> float:
    """Half-width of the speed-up's interval, relative to it, at which measuring stops early."""
    if latency_us < 10:
        return 0.02
    return 0.01 if latency_us < 50 else 0.005


@dataclass(slots=True, kw_only=True)
class Side:
    """What was measured of one arm, a value a block."""

    stream_us: list[float] = field(default_factory=list)
    beyond_us: list[float] = field(default_factory=list)
    """Until every stream was done, beyond the entry stream."""
    marked_us: list[float] = field(default_factory=list)
    opened_us: list[float] = field(default_factory=list)
    empty_us: list[float] = field(default_factory=list)
    """As `stream_us`, of empty kernels."""
    plain_us: list[float] = field(default_factory=list)

    def take(self, run: GatedRun) -> None:
        """One block: means over its calls."""
        counted = slice(_COUNTED_FROM if len(run.calls) >= _MANY_CALLS else 0, None)
        self.stream_us.append(float(np.mean(run.stream_us[counted])))
        self.beyond_us.append(float(np.mean(run.all_us[counted])) - self.stream_us[-1])
        self.marked_us.append(float(np.mean([call.marked_s for call in run.calls[counted]])) * 1e6)
        self.opened_us.append(float(np.mean([call.opened_s for call in run.calls[counted]])) * 1e6)


@dataclass(slots=True, kw_only=True)
class InVain:
    """What was measured of calls whose inputs were replaced behind the gate, a value a call."""

    all_us: list[float] = field(default_factory=list)
    """By events, until every stream was done."""
    opened_us: list[float] = field(default_factory=list)
    """By the judge's clock, until it held the output."""

    def take(self, run: GatedRun) -> None:
        """Those of a block that were not made again."""
        kept = [(us, call.opened_s * 1e6) for us, call in zip(run.all_us, run.calls, strict=True) if call.in_vain]
        self.all_us += [all_us for all_us, _ in kept]
        self.opened_us += [opened_us for _, opened_us in kept]


@dataclass(slots=True, kw_only=True)
class Bench(Pair[DeviceArm]):
    """One pair of processes, and their counted blocks."""

    ours: Side = field(default_factory=Side)
    theirs: Side = field(default_factory=Side)
    empty: Side = field(default_factory=Side)
    in_vain: InVain = field(default_factory=InVain)
    """The candidate's calls whose preparation was in vain."""
    empty_in_vain: InVain = field(default_factory=InVain)
    """The reference's empty kernels in their place."""

    def gated_pair(self, calls: int, decoys: Sequence[Ticket] = ()) -> tuple[GatedRun, GatedRun]:
        """One block of each arm on the same inputs, reference's first in the answer.

        With `decoys` what is done before the gate opens is done on these, which nothing tells apart.
        """
        batch = self.new_batch(calls, "cuda")
        ours, theirs = self.in_turn(lambda arm: arm.run_gated(self.tickets, decoys))
        self.check(batch, ours.outputs, theirs.outputs)
        return ours, theirs

    def pair_in_vain(self, calls: int) -> None:
        """Calls whose preparation is in vain, and empty kernels in their place.

        Replacing inputs may make the device change from the worker to the judge and back, for a hundred microseconds.
        """
        decoys = [Ticket.of(inputs, "cuda") for inputs in self.next_batch(calls)]
        _, theirs = self.gated_pair(calls, decoys)
        self.in_vain.take(theirs)
        few = min(calls, _EMPTY_CALLS)
        ours, _ = self.in_turn(lambda arm: arm.echo_gated(self.tickets[:few], decoys[:few]))
        self.empty_in_vain.take(ours)

    def plain_pair(self, calls: int) -> None:
        """A block of each arm in plain calls, less echoes of the reference's."""
        batch = self.new_batch(calls, "cuda")
        ours, theirs = self.in_turn(lambda arm: arm.run(self.tickets))
        echo_s, _ = self.in_turn(lambda arm: arm.echo(self.tickets))
        self.check(batch, ours.outputs, theirs.outputs)
        for side, run in ((self.ours, ours), (self.theirs, theirs)):
            side.plain_us.append(max(run.wall_s - echo_s, 0.1 * run.wall_s) / calls * 1e6)

    def empty_block(self) -> None:
        """Empty kernels in place of the last block's calls."""
        few = (self.tickets * _EMPTY_CALLS)[:_EMPTY_CALLS]
        ours, theirs = self.in_turn(lambda arm: arm.echo_gated(few))
        self.empty.take(ours)
        self.ours.empty_us.append(float(np.mean(ours.stream_us[_COUNTED_FROM:])))
        self.theirs.empty_us.append(float(np.mean(theirs.stream_us[_COUNTED_FROM:])))

    def begin(self) -> None:
        """The calls that may be slow, or that show who cannot be gated."""
        for _ in range(_FIRST_CALLS):
            self.gated_pair(1)

    def choose_calls(self) -> int:
        """Calls per block, by the time and the memory that one takes."""
        pairs = [self.gated_pair(1) for _ in range(2)]
        # The smaller: now and then a call waits for the host, which is no property of it.
        wall_s = min(max(run.calls[0].posted_s for run in pair) for pair in pairs)
        pair = pairs[-1]
        held = tensors([self.tickets[0].inputs, pair[0].calls[0].output])
        most = max(1, _BLOCK_BYTES // max(sum(tensor.nbytes for tensor in held), 1))
        return max(1, min(SLOTS, most, round(_BLOCK_WALL_S / wall_s)))

    def warm_up(self, calls: int) -> None:
        """A number of calls that a candidate cannot foresee lies before the first one that counts."""
        for _ in range(1 + secrets.randbelow(2)):
            self.gated_pair(1 + secrets.randbelow(calls))
        self.plain_pair(1)
        self.empty_block()
        self.ours, self.theirs, self.empty = Side(), Side(), Side()
        self.calls, self.started = calls, time.monotonic()

    def measure(self, settings: TimingSettings) -> None:
        """This pair's share of the blocks and of the time, in rounds B C C B with empty kernels and plain calls."""
        share_s = settings.budget_s / settings.process_pairs
        share = max(math.ceil(settings.min_blocks / settings.process_pairs), MIN_SAMPLES)
        for number in itertools.count():
            for in_vain in _in_any_order([False, False] + [True] * (self.candidate.gated and number % 2 == 0)):
                if in_vain:
                    self.pair_in_vain(self.calls)
                    continue
                ours, theirs = self.gated_pair(self.calls)
                self.ours.take(ours)
                self.theirs.take(theirs)
                self.empty_block()
            self.plain_pair(min(self.calls, _PLAIN_CALLS))
            blocks = len(self.ours.stream_us)
            spent = time.monotonic() - self.started >= share_s
            if blocks >= share and (spent or self._narrow(settings)):
                return

    def _narrow(self, settings: TimingSettings) -> bool:
        references, candidates = self.samples_us()
        ratio = median_interval(np.log(np.array(references) / np.array(candidates)))
        wanted = min(settings.target_interval, target_interval(min(np.median(references), np.median(candidates))))
        return (ratio.high - ratio.low) / 2 <= wanted

    def events_us(self, side: Side) -> float:
        """What events add to a span in the process of that side."""
        usual_us = float(np.median(self.ours.empty_us))
        own_us = float(np.median(side.empty_us))
        return float(np.clip(own_us, usual_us - _EMPTY_DIFFERS_US, usual_us + _EMPTY_DIFFERS_US)) - EMPTY_KERNEL_US

    def samples_us(self) -> tuple[list[float], list[float]]:
        """Device time per block, the reference's and the candidate's."""
        if not (self.candidate.gated and self.forged):
            return self._device_us(self.ours), self._device_us(self.theirs)
        candidates = [max(us, EMPTY_KERNEL_US) for us in self._attested(self.theirs)]
        # What the clock adds or leaves out it does of both.
        references = self._attested(self.ours) if self.reference.gated else self._device_us(self.ours)
        return [max(us, EMPTY_KERNEL_US) for us in references], candidates

    def _device_us(self, side: Side) -> list[float]:
        overhead_us = self.events_us(side)
        usual_us = float(np.median(self.empty.beyond_us))
        late_us = [max(beyond - usual_us, 0.0) for beyond in side.beyond_us]
        counted_us = [late if late > _SIDE_US else 0.0 for late in late_us]
        spans = zip(side.stream_us, counted_us, strict=True)
        return [max(stream + late - overhead_us, 0.1 * stream, _LEAST_US) for stream, late in spans]

    def _attested(self, side: Side) -> list[float]:
        """Blocks by the judge's clock alone, less what is the clock's."""
        marked_us = float(np.median(self.empty.marked_us)) - EMPTY_KERNEL_US
        opened_us = float(np.median(self.empty.opened_us)) - EMPTY_KERNEL_US + _HELD_US
        least_us = self._unprepared_us if side is self.theirs else 0.0
        both = zip(side.marked_us, side.opened_us, strict=True)
        return [max(marked - marked_us, opened - opened_us, least_us) for marked, opened in both]

    @property
    def _unprepared_us(self) -> float:
        """What a call takes at least when nothing can be done for it beforehand.

        Its inputs lie in the cache, so that an honest one takes no longer than the others.
        """
        if not self.in_vain.all_us or not self.empty_in_vain.all_us:
            return 0.0
        by_device_us = _CHANGED_US if self.tickets[0].apart.is_cuda else 0.0
        by_events_us, held_us = (
            median_interval(np.array(theirs)).low - float(np.median(empty))
            for theirs, empty in (
                (self.in_vain.all_us, self.empty_in_vain.all_us),
                (self.in_vain.opened_us, self.empty_in_vain.opened_us),
            )
        )
        return max(by_events_us - by_device_us, held_us - _HELD_US) + EMPTY_KERNEL_US

    def attested_us(self) -> Interval | None:
        """The candidate's time by the judge's clock; None where no gate kept its work from beginning early."""
        return median_interval(np.array(self._attested(self.theirs))) if self.candidate.gated else None

    @property
    def forged(self) -> bool:
        """Whether the candidate's events say far less than the judge's clock."""
        attested = self.attested_us()
        claimed_us = float(np.median(self._device_us(self.theirs)))
        return attested is not None and attested.low > min(times * claimed_us + us for times, us in _FORGED)


def _in_any_order(flags: list[bool]) -> list[bool]:
    return secrets.SystemRandom().sample(flags, len(flags))

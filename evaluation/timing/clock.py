"""The clock: reference and candidate in alternating blocks, on the same fresh inputs, by the judge's time alone.

A block is K tickets of one call. Its time is that from posting each ticket until the candidate is stopped, added up:
K times the cost of a call, and an overhead for posting, waking the worker and being answered. The overhead is measured
by echoes: the reference's worker, which is trusted, answers at once. Their median's lower 95 % bound is taken off the
blocks of both arms, so that noise in it can hide a speed-up but not make one; and what is taken off is never nearly the
whole block. Nothing that the candidate says enters, and every output is checked.

The worker itself also spends time beside a call, to hand over its inputs and to say where the output lies. A candidate
may have replaced the code that does this, so that it is not taken off: it counts as part of a call in both arms. How
much it is, is the difference between rehearsals, which do all of it and leave the call out, and echoes. The lower end
of the speed-up's interval allows for a candidate that saved all of it.

The blocks come from several pairs of fresh processes: with the same code and inputs two processes differ, by the places
in memory that they happened to get, more than the blocks of one pair let one think.
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
from evaluation.settings import TimingSettings
from evaluation.timing.pair import Batch, Check, Pair
from evaluation.timing.statistics import MIN_SAMPLES, Interval, latency, median_interval, speedup
from evaluation.verdict import Timing
from evaluation.worker.arm import Arm
from evaluation.worker.ticket import Ticket

MAX_CALLS = 64
BLOCK_S = 0.002
"""Seconds of calls that a block of the faster arm should hold: the clock's grain, and a first call's cold caches, are
small in it."""
BLOCK_BYTES = 64 * 2**20
"""Inputs and outputs of one block, at most; one call may need more."""
_ECHOES = 5
_WELL_BOUNDED = 6
"""Samples whose range holds the median in 97 % of cases."""
_VERY_SLOW = 4
"""A pair that has used this many times its share may do with MIN_SAMPLES."""
_SPARE = 3
"""Blocks are so short that this many times the fewest that are wanted can be paid."""
_LEAST_SHARE = 0.1
"""Of a block's wall time, which remains whatever the correction says."""
_ELAPSED_FACTOR = 3
"""Making inputs and checking outputs may take this many times the seconds of measuring before it ends early."""


def time_arms(
    open_pair: Callable[[], AbstractContextManager[tuple[Arm, Arm]]],
    next_batch: Callable[[int], Batch],
    check: Check,
    settings: TimingSettings,
) -> tuple[Timing, bool]:
    """Time both arms; the flag says whether the speed-up's interval is narrow enough to be called stable.

    `open_pair` starts a fresh process of each arm, reference first. `next_batch(k)` makes k calls' inputs that were
    never used before. Whatever these, `check` or an arm raise goes through.
    """
    started = time.monotonic()
    benches: list[_Bench] = []
    calls = 0
    while len(benches) < settings.process_pairs:
        with open_pair() as (reference, candidate):
            bench = _Bench(reference=reference, candidate=candidate, next_batch=next_batch, check=check)
            calls = calls or _choose_calls(bench, settings)
            bench.warm_up(calls)
            benches.append(bench)
            _measure(bench, settings)
        samples = [bench.samples_us() for bench in benches]
        ratio = speedup(samples)
        if _sufficient(benches, ratio, settings):
            break
    overhead_us = float(np.median([bench.overhead_s for bench in benches])) * 1e6
    candidate_latency = latency([sample_us for _, theirs in samples for sample_us in theirs])
    harness_us = max(float(np.median([bench.harness_s for bench in benches])), 0.0) * 1e6 / calls
    timing = Timing(
        candidate=candidate_latency,
        reference=latency([sample_us for ours, _ in samples for sample_us in ours]),
        speedup=ratio.value,
        speedup_low=ratio.low * candidate_latency.median_us / (candidate_latency.median_us + harness_us),
        speedup_high=ratio.high,
        harness_us=harness_us,
        calls_per_block=calls,
        process_pairs=len(benches),
        clock=(
            f"wall time by the judge's clock, from posting a call until its process is stopped, over {calls} calls, "
            f"less what the reference's arm takes to answer as often ({overhead_us:.1f} us, at most "
            f"{1 - _LEAST_SHARE:.0%} of a block), divided by them; {harness_us:.1f} us of a call are the worker's own"
        ),
        wall_s=time.monotonic() - started,
    )
    return timing, ratio.relative_half_width <= settings.stable_interval


@dataclass(slots=True, kw_only=True)
class _Bench(Pair[Arm]):
    """One pair of processes, and their counted blocks."""

    reference_s: list[float] = field(default_factory=list)
    candidate_s: list[float] = field(default_factory=list)
    rehearsals_s: list[float] = field(default_factory=list)
    echoes_s: list[float] = field(default_factory=list)
    measured_s: float = 0.0

    def pair(self, calls: int) -> tuple[float, float]:
        """One block of each arm on the same inputs: wall seconds of reference and candidate."""
        batch = self.new_batch(calls, "cpu")
        ours, theirs = self.in_turn(lambda arm: arm.run(self.tickets))
        self.check(batch, ours.outputs, theirs.outputs)
        return ours.wall_s, theirs.wall_s

    def echo(self) -> float:
        """Seconds of the reference's arm for the answers of the last block by themselves.

        The inputs have nothing more to give away. The candidate does the same, to be as warm as the reference is.
        """
        return self.in_turn(lambda arm: arm.echo(self.tickets))[0]

    def rehearse(self) -> float:
        """The same with all else that is done beside the calls."""
        return self.in_turn(lambda arm: arm.rehearse(self.tickets))[0]

    def warm_up(self, calls: int) -> None:
        """A number of calls that a candidate cannot foresee lies before the first one that counts."""
        for _ in range(1 + secrets.randbelow(3)):
            self.pair(1 + secrets.randbelow(calls))
        self.calls = calls

    def round(self) -> None:
        """Blocks B C C B, an echo under the same circumstances after each pair, and a rehearsal."""
        for _ in range(2):
            ours_s, theirs_s = self.pair(self.calls)
            self.reference_s.append(ours_s)
            self.candidate_s.append(theirs_s)
            self.measured_s += ours_s + theirs_s
            self.echoes_s.append(self.echo())
        self.rehearsals_s.append(self.rehearse())

    @property
    def overhead_s(self) -> float:
        """Lower 95 % bound of the median time that the answers of a block take by themselves."""
        return max(median_interval(np.array(self.echoes_s)).low, 0.0)

    @property
    def harness_s(self) -> float:
        """What a block spends in the worker beside its calls."""
        return float(np.median(self.rehearsals_s)) - float(np.median(self.echoes_s))

    def samples_us(self) -> tuple[list[float], list[float]]:
        """Per call, the reference's blocks and the candidate's."""
        overhead_s = self.overhead_s
        ours, theirs = (
            [_per_call_us(wall_s, overhead_s, self.calls) for wall_s in walls]
            for walls in (self.reference_s, self.candidate_s)
        )
        return ours, theirs


def _measure(bench: _Bench, settings: TimingSettings) -> None:
    """This pair's share of the blocks and of the time."""
    share_s = settings.budget_s / settings.process_pairs
    share = max(math.ceil(settings.min_blocks / settings.process_pairs), MIN_SAMPLES)
    while True:
        bench.round()
        blocks = len(bench.reference_s)
        spent = bench.measured_s >= share_s or time.monotonic() - bench.started >= _ELAPSED_FACTOR * share_s
        ours, theirs = bench.samples_us()
        ratio = median_interval(np.log(np.array(ours) / np.array(theirs)))
        narrow = (ratio.high - ratio.low) / 2 <= settings.target_interval / 2
        fewest = MIN_SAMPLES if bench.measured_s >= _VERY_SLOW * share_s else _WELL_BOUNDED
        if (blocks >= share and narrow) or (blocks >= fewest and spent):
            return


def _sufficient(benches: Sequence[_Bench], ratio: Interval, settings: TimingSettings) -> bool:
    """Whether no further pair of processes is needed, or can be paid."""
    if sum(bench.measured_s for bench in benches) >= settings.budget_s:
        return True
    blocks = sum(len(bench.reference_s) for bench in benches)
    narrow = ratio.relative_half_width <= settings.target_interval
    return len(benches) > 1 and blocks >= settings.min_blocks and narrow


def _choose_calls(bench: _Bench, settings: TimingSettings) -> int:
    """Calls per block: long enough to time, short and small enough to repeat. Found by blocks of growing length."""
    bench.pair(1)
    ticket = Ticket.of(bench.next_batch(1)[0])
    outputs = bench.reference.run([ticket]).outputs
    call_bytes = sum(t.numel() * t.element_size() for t in tensors([ticket.inputs, outputs]))
    most = max(1, min(MAX_CALLS, BLOCK_BYTES // max(call_bytes, 1)))
    calls = 1
    while True:
        pair_s = bench.pair(calls)
        overhead_s = min(bench.echo() for _ in range(_ECHOES))
        pair_us = [_per_call_us(wall_s, overhead_s, calls) for wall_s in pair_s]
        affordable = settings.budget_s / (_SPARE * settings.min_blocks) / (sum(pair_us) * 1e-6)
        wanted = max(1, math.floor(min(math.ceil(BLOCK_S / min(pair_us) * 1e6), affordable, most)))
        if wanted <= 2 * calls:
            return wanted
        calls = min(wanted, 8 * calls)


def _per_call_us(wall_s: float, overhead_s: float, calls: int) -> float:
    return max(wall_s - overhead_s, _LEAST_SHARE * wall_s) / calls * 1e6

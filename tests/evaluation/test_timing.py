import random
import time
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from evaluation.settings import TimingSettings
from evaluation.timing.clock import BLOCK_S, MAX_CALLS, time_arms
from evaluation.worker.arm import ArmRun

TICKET_S = 60e-6


@pytest.fixture(autouse=True)
def same_every_time(monkeypatch):
    """What the clock draws is drawn alike in every run, and a busy machine takes none of its time."""
    monkeypatch.setattr("evaluation.timing.clock.secrets", SimpleNamespace(randbelow=random.Random(20).randrange))
    monkeypatch.setattr("evaluation.timing.clock.time", SimpleNamespace(monotonic=lambda: 0.0))


class KnownArm:
    """Stands at the process boundary: a ticket whose wall time is made of known parts, on a virtual clock.

    `call_us` is one call, `noise` the standard deviation of a block's log(time).
    """

    def __init__(self, call_us, noise=0.02, seed=0, offset=0.0, ticket_s=TICKET_S, delivery_s=0.0):
        self.call_s = call_us * 1e-6 * np.exp(offset)
        self.noise, self.ticket_s, self.delivery_s = noise, ticket_s, delivery_s
        self.generator = np.random.default_rng(seed)
        self.tickets = []

    def run(self, batch):
        self.tickets.append([id(ticket.inputs) for ticket in batch])
        work_s = len(batch) * self.call_s * np.exp(self.generator.normal(0, self.noise))
        return ArmRun([self.answer(*ticket.inputs) for ticket in batch], self.overhead_s(batch) + float(work_s))

    def rehearse(self, batch):
        return self.overhead_s(batch) * np.exp(self.generator.normal(0, self.noise))

    def echo(self, batch):
        return self.rehearse(batch)

    def overhead_s(self, batch):
        return self.ticket_s + len(batch) * self.delivery_s

    def answer(self, x):
        return x + 1


class Spinning(KnownArm):
    """Really spends the time; the thread's own, so that a busy machine does not count."""

    def run(self, batch):
        started = time.thread_time()
        outputs = []
        for (x,) in (ticket.inputs for ticket in batch):
            end = time.thread_time() + self.call_s
            outputs.append(x + 1)
            while time.thread_time() < end:
                pass
        return ArmRun(outputs, time.thread_time() - started)

    def rehearse(self, batch):
        return 0.0

    def echo(self, batch):
        return 0.0


class WrongLater(KnownArm):
    def answer(self, x):
        return x + 1 if len(self.tickets) < 20 else x


class Mismatch(Exception):
    pass


def fresh(calls):
    return [[torch.rand(8)] for _ in range(calls)]


def check(batch, expected, outputs):
    assert len(batch) == len(expected) == len(outputs)
    for right, output in zip(expected, outputs, strict=True):
        if not torch.equal(right, output):
            raise Mismatch


def timed(reference, candidate, settings=None, next_batch=fresh):
    return time_arms(lambda: nullcontext((reference, candidate)), next_batch, check, settings or TimingSettings())


def test_a_kernel_twice_as_fast_comes_out_as_two():
    timing, stable = timed(KnownArm(400, seed=1), KnownArm(200, seed=2))
    assert stable and timing.faster
    assert timing.speedup == pytest.approx(2, rel=0.03)
    assert timing.speedup_low < 2 < timing.speedup_high
    assert timing.candidate.median_us == pytest.approx(200, rel=0.02)
    assert timing.reference.median_us == pytest.approx(400, rel=0.02)
    assert len(timing.candidate.samples_us) == len(timing.reference.samples_us) >= 12
    assert timing.calls_per_block == pytest.approx(BLOCK_S / 200e-6, abs=2)


def test_the_fixed_part_of_a_ticket_is_taken_off_short_kernels():
    timing, _ = timed(KnownArm(4, seed=1, noise=0.005), KnownArm(2, seed=2, noise=0.005))
    assert timing.calls_per_block == MAX_CALLS
    assert timing.speedup == pytest.approx(2, rel=0.1)
    assert timing.speedup < 2.02
    assert "(5" in timing.clock or "(6" in timing.clock


def test_equal_arms_come_out_as_one():
    held = 0
    for seed in range(60):
        pair = (KnownArm(100, noise=0.03, seed=(seed, side), offset=0.005 * side) for side in (0, 1))
        timing, stable = timed(*pair, TimingSettings(budget_s=0.4))
        held += timing.speedup_low <= 1 <= timing.speedup_high
        assert stable
    assert held >= 54


def test_real_time_is_measured():
    timing, _ = timed(Spinning(300), Spinning(150), TimingSettings(budget_s=0.3))
    assert timing.speedup == pytest.approx(2, rel=0.25)


def test_a_noisy_kernel_is_unstable_and_its_budget_ends():
    reference, candidate = KnownArm(1000, noise=0.02), KnownArm(1000, noise=1.2, seed=3)
    timing, stable = timed(reference, candidate, TimingSettings(budget_s=0.3))
    assert not stable
    assert timing.speedup_high / timing.speedup_low > 1.3


def test_measuring_stops_early_only_with_enough_blocks():
    settings = TimingSettings(budget_s=100.0, min_blocks=16)
    timing, _ = timed(KnownArm(50, noise=0.001), KnownArm(50, noise=0.001, seed=1), settings)
    assert len(timing.candidate.samples_us) == 16


def test_a_slow_kernel_gets_a_few_blocks_of_one_call():
    timing, _ = timed(KnownArm(2e6), KnownArm(1e6, seed=1), TimingSettings(budget_s=1.0))
    assert timing.calls_per_block == 1
    assert len(timing.candidate.samples_us) == 4


def test_large_inputs_make_short_blocks():
    def large(calls):
        return [[torch.zeros(6 * 2**20, dtype=torch.uint8)] for _ in range(calls)]

    settings = TimingSettings(budget_s=0.05, min_blocks=4, target_interval=1.0)
    timing, _ = timed(KnownArm(10), KnownArm(10), settings, large)
    assert 1 <= timing.calls_per_block <= 5


def test_a_wrong_output_in_any_block_is_caught():
    with pytest.raises(Mismatch):
        timed(KnownArm(100), WrongLater(100), TimingSettings(budget_s=5.0, target_interval=0.0))


def test_both_arms_see_the_same_fresh_inputs_and_take_turns():
    log = []

    class Logged(KnownArm):
        def __init__(self, name):
            super().__init__(100, seed=len(name))
            self.name = name

        def run(self, batch):
            log.append((self.name, [ticket.inputs[0].clone() for ticket in batch]))
            return super().run(batch)

    timing, _ = timed(Logged("B"), Logged("C"), TimingSettings(process_pairs=1))
    counted = log[-2 * len(timing.candidate.samples_us) :]
    for first, second in zip(counted[::2], counted[1::2], strict=True):
        assert {first[0], second[0]} == {"B", "C"}
        assert all(torch.equal(*both) for both in zip(first[1], second[1], strict=True))
    order = "".join(name for name, _ in counted)
    assert order in ("BCCB" * (len(order) // 4), "CBBC" * (len(order) // 4))
    contents = [tuple(x.tolist()) for name, batch in log if name == "C" for x in batch]
    assert len(set(contents)) == len(contents)


def test_the_candidates_own_ticket_cost_is_never_taken_off():
    dear = KnownArm(50, noise=0.002, seed=1, ticket_s=3e-3)
    timing, _ = timed(KnownArm(50, noise=0.002), dear)
    assert timing.speedup < 0.8


def test_the_cost_of_delivery_is_taken_off_each_call_but_never_nearly_all():
    parts = {"noise": 0.002, "delivery_s": 20e-6}
    timing, _ = timed(KnownArm(40, **parts), KnownArm(20, seed=1, **parts))
    assert timing.speedup == pytest.approx(2, rel=0.05)

    class Absurd(KnownArm):
        def echo(self, batch):
            return 1.0

    absurd, _ = timed(Absurd(60, noise=0.002), KnownArm(40, noise=0.002, seed=1))
    assert 1.3 < absurd.speedup < 1.6
    assert absurd.candidate.median_us > 3.9


def test_every_pair_of_processes_has_its_share():
    opened = []

    @contextmanager
    def open_pair():
        """Each process has its own constant error, which no number of its blocks shows."""
        seed = len(opened)
        opened.append(seed)
        yield KnownArm(100, 0.002, seed), KnownArm(100, 0.002, seed + 99, offset=0.05 * (-1) ** seed)

    timing, _ = time_arms(open_pair, fresh, check, TimingSettings(process_pairs=4, target_interval=0.0))
    assert timing.process_pairs == len(opened) == 4
    assert timing.speedup_low < 0.97 and timing.speedup_high > 1.03

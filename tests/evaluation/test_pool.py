"""Workers that are ready before they are asked for."""

import time
from contextlib import closing

import pytest

from evaluation.settings import EvaluationSettings
from evaluation.worker import pool as pool_module
from evaluation.worker.pool import Pool
from evaluation.worker.start import start_zygote


@pytest.fixture(scope="module")
def zygote(tmp_path_factory):
    with closing(start_zygote(EvaluationSettings(), tmp_path_factory.mktemp("cache"))) as started:
        yield started


@pytest.fixture
def pool(zygote):
    with closing(Pool(zygote, EvaluationSettings().limits)) as made:
        yield made


def test_spares_come_after_a_while_and_settling_keeps_those_that_were_begun(pool, monkeypatch):
    monkeypatch.setattr(pool_module, "_SPARES_AFTER_S", 0.2)
    pool.refill(1, spare=1)
    assert len(pool._ready) == 1
    deadline = time.monotonic() + 20
    while len(pool._ready) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    pool.settle(1)
    assert 1 <= len(pool._ready) <= 2 and all(future.done() for future in pool._ready)


def test_who_settles_before_that_has_no_spares(pool):
    pool.refill(1, spare=3)
    pool.settle(1)
    time.sleep(0.1)
    assert len(pool._ready) == 1 and pool._later is None


def test_those_that_are_not_needed_are_not_begun(pool, monkeypatch):
    begun = []

    def slow():
        begun.append(time.sleep(0.3))
        return spawn()

    spawn = pool._spawn
    monkeypatch.setattr(pool, "_spawn", slow)
    pool.refill(8)
    pool.settle(2)
    assert len(begun) < 8 and len(pool._ready) == len(begun)


def test_a_worker_is_taken_in_order_and_a_fresh_one_where_none_is_ready(pool):
    pool.refill(1)
    first = pool._ready[0].result()
    with closing(pool.take()) as taken, closing(pool.take()) as fresh:
        assert taken is first and fresh is not first

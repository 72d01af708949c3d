"""A worker's life and its ends: killed at any step, frozen, drained, without a provider, alone with a deadly cell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from finished import assert_each_once
from model_server import Ask, Fault, ModelServer, Says, call, model_server, says
from one_cell import TURNS, fork_worker, make_job, rewritten, steps_of, store_of

from agents.errors import ExperimentSpent, ProviderCause, ProviderError
from orchestrator.store.claims import Claim, Outcome, history, take
from orchestrator.store.control import Control, Pauser
from orchestrator.store.job import Job, PlannedCells
from orchestrator.store.leases import Holder, Lease, Liveness, Watch
from orchestrator.store.store import Store
from orchestrator.sweep.crew import LOOPS_MAX, LOOPS_START, MEASURED_S, Growth
from orchestrator.sweep.judges import Judges
from orchestrator.sweep.parking import NoLimits
from orchestrator.sweep.queue import deaths_borne, deaths_here
from orchestrator.sweep.retry import release
from orchestrator.sweep.runner import mend
from orchestrator.sweep.status import collect
from orchestrator.sweep.worker import Worker

SUPPORT = str(Path(__file__).parents[1] / "support")
GOOD = says(call("get_gpu_specs"))
WALL_FIELDS = ("attempt", "llm_s", "tools_s", "wall_s", "started_at", "finished_at")


def uid_of(job: Job) -> str:
    return uids_of(job)[0]


def uids_of(job: Job) -> list[str]:
    return PlannedCells(job).uids


def outcomes(job: Job, uid: str) -> list[Outcome | None]:
    return [claim.ended.outcome if claim.ended else None for claim in history(store_of(job).attempts_dir(uid))]


def lasting(store: Store, uid: str) -> dict[str, Any]:
    """The record without what differs from run to run."""
    record = json.loads(store.record_path(uid).read_text())
    return {name: value for name, value in record.items() if name not in WALL_FIELDS}


def test_killed_before_any_step_to_the_disk_a_cell_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(SUPPORT) / "one_cell.py"), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([SUPPORT, *sys.path])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    steps = int(done.stdout.split()[-1])
    assert steps > 20
    clean = Store(tmp_path / str(steps + 1) / "tiny")
    (uid,) = clean.begun()
    expected = sorted(path.name for path in clean.cell_dir(uid).iterdir())
    for step in range(1, steps + 1):
        store = Store(tmp_path / str(step) / "tiny")
        mend(store, "mend")  # as the next `run` does
        assert_each_once(store, [uid])
        assert lasting(store, uid) == lasting(clean, uid)
        names = sorted(path.name for path in store.cell_dir(uid).iterdir() if not path.name.startswith("."))
        assert names == expected, f"killed before step {step}"


def test_a_frozen_worker_that_wakes_up_late_finds_its_result_refused_and_kept(tmp_path: Path) -> None:
    clean = make_job(tmp_path, outputs="clean")
    os.waitpid(fork_worker(clean, "clean"), 0)
    record_link = len(steps_of(clean, "clean")) - steps_of(clean, "clean")[::-1].index("link")
    job = make_job(tmp_path, lease_s=1.0)
    store, uid = store_of(job), uid_of(job)
    sleeper = fork_worker(job, "sleeper", record_link - 2, stops=True)  # while it notes why the agent stopped
    try:
        os.waitid(os.P_PID, sleeper, os.WSTOPPED)
        assert history(store.attempts_dir(uid)) and not store.is_done(uid)
        Worker(job, "other").run()  # it waits for the lease to run out
        assert store.is_done(uid)
        before = store.trajectory_path(uid).read_bytes()
    finally:
        os.kill(sleeper, signal.SIGCONT)
    _, status = os.waitpid(sleeper, 0)
    assert status == 0
    record = store.read_record(uid)
    assert record is not None and record.attempt == 2
    assert outcomes(job, uid)[0] is Outcome.SUPERSEDED
    assert store.trajectory_path(uid).read_bytes() == before  # what it still had to say went into the old file
    assert_each_once(store, [uid])


class Provider:
    """Says the next of `answers` to each request, the last one again and again; `asked` counts arrivals."""

    def __init__(self) -> None:
        self.answers: list[Says | Fault] = [GOOD]
        self.asked = 0
        self.url = ""

    def __call__(self, ask: Ask) -> Says | Fault:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def provider() -> Iterator[Provider]:
    script = Provider()
    with model_server(script) as server:
        script.url = server.url
        yield script


def model_at(provider: Provider | ModelServer) -> list[str]:
    return [
        "model=openai_compatible",
        f"model.base_url={provider.url}",
        "model.litellm_model=openai/m",
        "model.max_attempts=1",
    ]


class Soon:
    """A policy that is all the same for every cell, and counts."""

    def __init__(self) -> None:
        self.failures: list[int] = []
        self.answers = 0

    def may_take(self) -> bool:
        return True

    def paused(self) -> None:
        return None

    def failed(self, error: ProviderError, parked_before: int) -> float:
        assert error.cause is ProviderCause.OUTAGE
        self.failures.append(parked_before)
        return 0.2

    def answered(self) -> None:
        self.answers += 1


def test_without_a_provider_cells_are_parked_which_is_no_try_and_come_back(tmp_path: Path, provider: Provider) -> None:
    job = make_job(tmp_path, "seed=0,1", *model_at(provider), turns=1)
    provider.answers = [Fault.UNAVAILABLE_503] * (2 * job.attempts_max + 1) + [GOOD]
    policy = Soon()
    Worker(job, "w", limits=NoLimits(policy)).run()
    first, second = uids_of(job)
    assert_each_once(store_of(job), [first, second])
    assert outcomes(job, first) == [Outcome.PARKED] * 4 + [None]  # more often than it may be tried
    assert outcomes(job, second) == [Outcome.PARKED] * 3 + [None]
    assert policy.failures == [0, 0, 1, 1, 2, 2, 3] and policy.answers == 2


def test_loops_of_one_worker_wait_for_their_models_together(tmp_path: Path) -> None:
    with model_server([GOOD]) as server:
        server.together = 8  # where one waited for another's answer, none would come
        settings = model_at(server)
        job = rewritten(make_job(tmp_path, "seed=range(0,8)", *settings, turns=1), agents=8)
        Worker(job, "w").run()
    assert_each_once(store_of(job), uids_of(job))
    assert len(server.log) == 8


def worker_process(job: Job, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "orchestrator.sweep.worker", "--root", job.root, "--job", job.id, "--id", "w"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([*command, *arguments], env=environment, stderr=subprocess.DEVNULL)


def test_a_worker_that_is_told_to_drain_ends_soon_although_its_requests_hang(
    tmp_path: Path, provider: Provider
) -> None:
    job = make_job(tmp_path, "seed=range(0,3)", *model_at(provider), turns=2)
    store = store_of(job)
    rewritten(job, agents=2)
    provider.answers = [GOOD, Fault.HANG]
    worker = worker_process(job)
    deadline = time.monotonic() + 60
    while provider.asked < 3:  # one turn was answered, and two requests hang
        assert time.monotonic() < deadline and worker.poll() is None
        time.sleep(0.02)
    worker.send_signal(signal.SIGUSR1)
    assert worker.wait(60) == 0
    ends = [outcomes(job, uid) for uid in uids_of(job)]
    assert sorted(map(str, ends)) == sorted(map(str, [[Outcome.INTERRUPTED], [Outcome.INTERRUPTED], []]))
    assert list(store.leases_dir.iterdir()) == []
    provider.answers = [GOOD]
    Worker(job, "next").run()
    assert_each_once(store, uids_of(job))
    assert provider.asked == 3 + 5  # the reply that was there before is not asked for again


def test_a_worker_drains_before_its_time_is_over(tmp_path: Path) -> None:
    job = make_job(tmp_path, "seed=range(0,3)")
    worker = Worker(job, "w", until=time.time() + 30.0)  # less than it takes to begin anything
    worker.run()
    assert not worker.drained and store_of(job).rows() == {}


@pytest.fixture
def deadly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A cell over which two workers have died; its next process is one of its own."""
    job = make_job(tmp_path)
    for name in ("first", "second"):
        _, status = os.waitpid(fork_worker(job, name, 8), 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
    assert outcomes(job, uid_of(job)) == [None, None]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), SUPPORT, *sys.path]))
    return job


def test_a_cell_that_also_kills_a_process_of_its_own_is_quarantined_until_it_is_released(
    tmp_path: Path, deadly: Job
) -> None:
    hook = tmp_path / "sitecustomize.py"
    hook.write_text("import sys\nfrom disk_steps import *\nif '--only' in sys.argv:\n    at_step(8, kill_self)\n")
    store, uid = store_of(deadly), uid_of(deadly)
    Worker(deadly, "third").run()
    assert outcomes(deadly, uid) == [None, None, Outcome.QUARANTINED]
    status = collect(store, [uid])
    assert [one.uid for one in status.quarantined] == [uid] and "SIGKILL" in status.quarantined[0].cause
    hook.unlink()
    Worker(deadly, "fourth").run()
    assert not store.is_done(uid)
    assert release(store, [uid], "retry") == ([uid], [])
    Worker(deadly, "fifth").run()
    assert_each_once(store, [uid])


@pytest.mark.parametrize(
    ("kinds", "here", "borne"),
    [
        (["start", "request", "reply", "tool_call", "start"], 2, 2),  # twice in the same call
        (["start", "request", "reply", "tool_call", "start", "tool_result", "request", "reply", "tool_call"], 1, 2),
        (["start", "request", "start"], 2, 6),  # both waited for the same reply
        ([], 2, 2),  # neither has written a word
    ],
)
def test_deaths_count_where_the_journal_ends(kinds: list[str], here: int, borne: int, tmp_path: Path) -> None:
    events, attempt = [], 0
    for kind in kinds:
        attempt += kind == "start"
        events.append({"kind": kind, "attempt": attempt})
    holder = Holder.current()
    claims = [Claim(directory=tmp_path, number=n, lease_id="w", holder=holder, job="job") for n in (1, 2)]
    assert (deaths_here(claims, events), deaths_borne(events)) == (here, borne)


def test_a_cell_that_was_only_there_when_two_workers_died_is_run_alone_and_done(deadly: Job) -> None:
    Worker(deadly, "third").run()
    assert_each_once(store_of(deadly), [uid_of(deadly)])


def test_paused_workers_take_nothing_and_leave_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.sweep.worker.PAUSE_WAIT_S", 0.3)
    job = make_job(tmp_path)
    control = Control(store_of(job))
    control.pause("the cluster is needed")
    control.pause("another reason")
    Worker(job, "w").run()
    assert store_of(job).rows() == {}
    assert collect(store_of(job), uids_of(job)).paused == "person: the cluster is needed"
    stood = control.resume()
    assert stood is not None and stood.by is Pauser.PERSON and control.paused() is None
    Worker(job, "w").run()
    assert_each_once(store_of(job), uids_of(job))


def test_cancelling_stops_the_launches_so_far_and_no_later_one(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    control = Control(store_of(job))
    assert control.cancel() == [job.id] and control.cancel() == []
    Worker(job, "w").run()
    assert store_of(job).begun() == set()
    Worker(make_job(tmp_path), "w").run()
    assert_each_once(store_of(job), uids_of(job))


def test_a_released_cell_is_run_afresh_and_its_old_record_stays(tmp_path: Path) -> None:
    job = make_job(tmp_path, "seed=0,1")
    store = store_of(job)
    Worker(job, "w").run()
    uid, other = uids_of(job)
    old = store.record_path(uid).read_bytes()
    assert release(store, [uid], "retry") == ([uid], [])
    assert set(store.rows()) == {other} and store.unindexed() == []
    assert (store.cell_dir(uid) / "record-1.json").read_bytes() == old
    status = collect(store, [uid, other])
    assert (status.done_total, status.untouched, status.owed) == (1, 1, [])
    Worker(job, "w").run()
    rows = store.rows()
    assert set(rows) == {uid, other} and rows[uid].attempt == 3
    events = store.trajectory_path(uid).read_text()
    assert events.count('"reply"') == TURNS * 2 and '"attempt": 3' in events  # kind and field


def test_a_cell_that_is_worked_on_is_not_released(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    store, uid = store_of(job), uid_of(job)
    with Lease(store.leases_dir, "other") as lease:
        claim = take(store.attempts_dir(uid), lease, Watch())
        assert claim is not None
        assert release(store, [uid], "retry") == ([], [uid])
        assert claim.liveness(Watch()) is Liveness.ALIVE and claim.valid()


def test_loops_grow_while_all_wait_and_judges_have_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now_s[0], process_time=lambda: 0.0)
    monkeypatch.setattr("orchestrator.sweep.crew.time", clock)
    growth = Growth(None, Judges(tmp_path, tmp_path / "log", 2))
    loops = growth.wanted(0, 0)
    assert loops == LOOPS_START
    assert growth.wanted(loops, loops) == loops  # nothing was measured yet
    now_s[0] += MEASURED_S
    assert growth.wanted(loops, loops - 1) == loops  # one of them has nothing to do
    grown = []
    for _ in range(8):
        now_s[0] += MEASURED_S
        loops = growth.wanted(loops, loops)
        grown.append(loops)
    assert grown == sorted(grown) and grown[0] == 6 and grown[-1] == LOOPS_MAX
    assert Growth(3, Judges(tmp_path, tmp_path / "log", 2)).wanted(0, 0) == 3


class Spent(NoLimits):
    """All caps are reached."""

    def check(self) -> None:
        raise ExperimentSpent("$1.00 of $1.00 is spent")


def test_when_the_money_is_out_the_sweep_pauses_and_its_cells_stay_owed(tmp_path: Path) -> None:
    job = make_job(tmp_path, "seed=range(0,3)")
    uids = uids_of(job)
    Worker(job, "w", limits=Spent()).run()
    assert [outcomes(job, uid) for uid in uids] == [[Outcome.INTERRUPTED], [], []]
    pause = Control(store_of(job)).paused()
    assert pause is not None and pause.by is Pauser.SPENT and pause.reason == "$1.00 of $1.00 is spent"

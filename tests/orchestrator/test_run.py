"""A sweep as its user has it: cells run, failures owed with their cause, a second run that does nothing."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sweeps import PROBLEM, RAISES, RIGHT, WRONG, call, make_sweep

from agents.protocols import ExitStatus
from orchestrator.report.page import write_cell_page
from orchestrator.settings import CHECKOUT
from orchestrator.store.claims import Outcome, history
from orchestrator.store.job import Job
from orchestrator.store.journal import read_events
from orchestrator.store.leases import Liveness, Watch
from orchestrator.store.store import Store
from orchestrator.sweep.launcher_local import FUTILE_STARTS, LocalLauncher
from orchestrator.sweep.run import Sweep, run, summary
from orchestrator.sweep.status import collect

DRIVER = """
import json, pickle, sys
from orchestrator.sweep.run import run, summary
with open(sys.argv[1], "rb") as file:
    sweep = pickle.load(file)
outcome = run(sweep)
print(summary(sweep, outcome))
print(json.dumps([name for name in ("torch", "mlflow", "litellm", "hydra") if name in sys.modules]))
sys.exit(outcome.exit_code)
"""


def start(sweep: Sweep, folder: Path) -> subprocess.Popen[str]:
    plan = folder / "sweep.pickle"
    plan.write_bytes(pickle.dumps(sweep))
    command = [sys.executable, "-c", DRIVER, str(plan)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_sweep_from_plan_to_mlflow_and_again(tmp_path: Path) -> None:
    replies = [call("run_correctness", WRONG), call("run_correctness", RIGHT), call("submit_kernel", RAISES)]
    database = tmp_path / "mlflow.db"
    sweep = make_sweep(
        tmp_path, replies, "agent=tool_loop,baseline", "launcher.workers=1", f"tracking.uri=sqlite:///{database}",
        "tracking.enabled=true", "budget.turns=3",
    )  # fmt: skip
    first = start(sweep, tmp_path)
    out, err = first.communicate(timeout=200)
    assert first.returncode == 0, err
    store = sweep.store
    table = out.splitlines()[:3]
    by_agent = {}
    for uid in sweep.cells:
        record = store.read_record(uid)
        assert record is not None and store.page_path(uid).exists()
        assert any(line.startswith(uid) and record.verdict in line for line in table)
        assert f"] {uid}" in err
        by_agent[record.cell.agent] = record
    solved, baseline = by_agent["tool_loop"], by_agent["baseline"]
    correct = ("PASSED", "UNSTABLE_TIMING")  # on a busy machine the clock may not settle
    assert solved.verdict in correct and solved.exit_status == ExitStatus.SUBMITTED
    assert [attempt.status for attempt in solved.attempts] == ["INCORRECT_VALUES", "PASSED", "RUNTIME_ERROR"]
    assert solved.graded_sha256 == solved.attempts[1].solution_sha256
    assert solved.grade is not None and solved.grade.timing is not None and solved.grade.correctness is not None
    assert solved.usage.prompt_tokens == 100 * solved.turns == 300
    assert baseline.verdict in correct and baseline.turns == 0 and baseline.usage.prompt_tokens == 0
    seen_by_tools = seeds_of_tools(store, solved.uid)
    assert seen_by_tools and not {draw.seed for draw in solved.grade.correctness.draws} & seen_by_tools
    assert f"sqlite:///{database}" in out and str(store.root / "report.html") in out
    assert (store.root / "report.html").exists() and "problem" in (store.root / "experiment.yaml").read_text()
    assert json.loads((store.root / "environment.json").read_text())["checkout"]["commit"]
    cursor = next((store.root / "tracking").glob("*.jsonl")).read_text().splitlines()
    assert cursor[-1] == '{"settled":true}'
    assert {json.loads(line)["uid"] for line in cursor[:-1] if '"finished":true' in line} == set(sweep.cells)

    second = start(sweep, tmp_path)
    out_again, _ = second.communicate(timeout=200)
    assert second.returncode == 0
    assert out_again.splitlines()[:-1] == out.splitlines()[:-1]
    assert json.loads(out_again.splitlines()[-1]) == []
    assert len(list((store.root / "jobs").iterdir())) == 1


def seeds_of_tools(store: Store, uid: str) -> set[int]:
    seeds: set[int] = set()
    for line in store.trajectory_path(uid).read_text().splitlines():
        event = json.loads(line)
        if event["kind"] == "tool_result" and (evaluation := event["result"]["evaluation"]):
            seeds |= {draw["seed"] for draw in (evaluation["correctness"] or {"draws": []})["draws"]}
    return seeds


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "library"
    (folder / "level1").mkdir(parents=True)
    shutil.copy(CHECKOUT / "problems" / f"{PROBLEM}.py", folder / "level1")
    return folder


def test_a_failing_cell_is_owed_with_its_cause_and_done_later(tmp_path: Path, library: Path) -> None:
    sweep = make_sweep(
        tmp_path,
        [call("get_gpu_specs")] * 2,
        "problem.source=kernelbench",
        f"problem.path={library}",
        "agent=tool_loop",
        "budget.turns=2",
        "seed=0,1",
        "launcher=inline",
    )
    problem = library / f"{PROBLEM}.py"
    source = problem.read_text()
    problem.write_text(source + "# changed\n")
    progress = io.StringIO()
    outcome = run(sweep, progress)
    assert outcome.exit_code == 1 and outcome.missing == 2 and outcome.rows == []
    for owed in outcome.owed:
        assert owed.attempt == 3 and "has changed since the cell was planned" in owed.cause
        assert f"owed: {owed.uid}: ProblemError" in summary(sweep, outcome)
    assert "attempt 1 failed" in progress.getvalue() and "2 of 2 cells are not done" in summary(sweep, outcome)
    order = [json.loads(line)["uid"] for line in worker_journal(sweep.store) if '"start"' in line]
    assert order == list(sweep.cells) * 3  # the other cell has its turn before a failed one is tried again

    problem.write_text(source)
    terminal = Terminal()
    outcome = run(sweep, terminal)
    assert "\r\033[K" in terminal.getvalue() and terminal.getvalue().endswith("2/2 done, 0 running, 0 passed\n")
    assert outcome.exit_code == 0 and [row.attempt for row in outcome.rows] == [4, 4]
    assert {row.verdict for row in outcome.rows} == {"NO_SOLUTION"}


def worker_journal(store: Store) -> list[str]:
    return next(store.root.glob("jobs/*/workers/0.jsonl")).read_text().splitlines()


def test_the_grade_asks_for_a_profile_and_nothing_else_of_a_cell_does(tmp_path: Path) -> None:
    replies = [call("run_correctness", RIGHT), call("run_correctness", RIGHT + "\n"), call("submit_kernel", RAISES)]
    sweep = make_sweep(tmp_path, replies, "launcher=inline", "evaluation.profile=final")
    assert run(sweep).exit_code == 0
    [uid] = sweep.cells
    record = sweep.store.read_record(uid)
    assert record is not None and record.grade is not None and record.grade.status.correct
    assert "profile" not in record.cell.identity["evaluation"]
    grades = [event for event in read_events(sweep.store.trajectory_path(uid)) if event["kind"] == "grade"]
    assert [event["purpose"] for event in grades] == ["selection", "selection", "final"]
    assert [event["evaluation"]["stage"] for event in grades] == ["timing", "timing", "profile"]
    assert record.grade.profile is not None
    assert set(record.grade.profile.absent.values()) == {"judged on a CPU: this takes a GPU"}
    assert "judged on a CPU" in sweep.store.page_path(uid).read_text(encoding="utf-8")


def test_a_record_whose_process_died_before_listing_it_is_mended(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, [call("get_gpu_specs")], "agent=tool_loop", "budget.turns=1", "launcher=inline")
    assert run(sweep, io.StringIO()).exit_code == 0
    store, (uid,) = sweep.store, sweep.cells
    shutil.rmtree(store.index_dir)
    store.page_path(uid).unlink()
    record = store.record_path(uid).read_bytes()
    outcome = run(sweep, io.StringIO())
    assert outcome.exit_code == 0 and [row.uid for row in outcome.rows] == [uid]
    assert store.unindexed() == [] and store.page_path(uid).exists()
    assert store.record_path(uid).read_bytes() == record and len(history(store.attempts_dir(uid))) == 1
    assert write_cell_page(store, uid) == store.page_path(uid)


def test_sigterm_stops_soon_lets_go_and_leaves_no_process(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, [call("get_gpu_specs")] * 6, "agent=tool_loop", "budget.turns=6", "seed=range(0,400)")
    process = start(sweep, tmp_path)
    store = sweep.store
    deadline = time.monotonic() + 60
    while len(store.begun()) < 5:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    status = collect(store, sweep.cells)
    assert status.planned == 400 == status.done_total + len(status.running) + len(status.owed) + status.untouched
    workers = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    assert len(workers) == 2
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    for pid in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    claims = [claim for uid in store.begun() for claim in history(store.attempts_dir(uid))]
    assert claims and all(claim.liveness(Watch()) is Liveness.DEAD for claim in claims)
    ends = {claim.ended.outcome for claim in claims if claim.ended is not None}
    assert ends <= {Outcome.INTERRUPTED}  # a record is an end of its own
    status = collect(store, sweep.cells)
    assert status.running == [] and status.done_total == len(store.rows()) and status.eta_s is None


def test_workers_that_cannot_start_are_given_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    job = Job(id="broken", root=str(tmp_path), cache_dir=str(tmp_path))
    LocalLauncher(1).launch(job)
    assert f"ended {FUTILE_STARTS} times with nothing done" in caplog.text
    assert "job.json" in (job.workers_dir / "0.log").read_text()


def test_no_workers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"launcher\.workers is 0"):
        LocalLauncher(0)

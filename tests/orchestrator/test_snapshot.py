"""The code that workers run is the code as it was when they were started."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from sweeps import PROBLEM, call

from orchestrator.settings import CHECKOUT
from orchestrator.store.job import Job, worker_command
from orchestrator.store.snapshot import FOLDERS, take_snapshot
from orchestrator.store.store import Store, StoreError

CELLS = 40


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of this checkout that a test may edit."""
    for name in FOLDERS:
        shutil.copytree(
            CHECKOUT / name, tmp_path / "checkout" / name, ignore=shutil.ignore_patterns("__pycache__", ".*")
        )
    return tmp_path / "checkout"


def until(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)


def test_editing_the_checkout_during_a_sweep_changes_nothing(checkout: Path, tmp_path: Path) -> None:
    transcripts = checkout / "agents" / "recordings" / "mine"
    transcripts.mkdir()
    recording = transcripts / f"{PROBLEM.rsplit('/', 1)[-1]}.yaml"
    recording.write_text(yaml.safe_dump({"origin": "a test", "problem": PROBLEM, "replies": [call("get_gpu_specs")]}))
    arguments = ["run", "name=edited", f"problem={PROBLEM}", "model.transcript=agents/recordings/mine"]
    arguments += ["budget.turns=1", f"seed=range(0,{CELLS})", "launcher.workers=1", "tracking=none"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "orchestrator", *arguments, "--out", str(tmp_path / "outputs")],
            cwd=checkout,
            env=os.environ | {"PYTHONPATH": str(checkout)},
            stdout=log,
            stderr=log,
        )
    store = Store(tmp_path / "outputs" / "edited")
    until(lambda: len(store.begun()) >= 3, process)
    for module in ("agents/factory.py", "orchestrator/sweep/runner.py"):
        (checkout / module).write_text("raise RuntimeError('edited')\n")
    (checkout / "problems" / f"{PROBLEM}.py").write_text("edited\n")
    shutil.rmtree(transcripts)
    (worker,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(worker), signal.SIGKILL)  # the next one imports everything anew
    assert process.wait(300) == 0, (tmp_path / "log").read_text()
    done = store.rows()
    assert len(done) == CELLS and {row.verdict for row in done.values()} == {"NO_SOLUTION"}
    assert "started again" in (tmp_path / "log").read_text()


def test_jobs_of_the_same_code_share_a_copy(checkout: Path, tmp_path: Path) -> None:
    first = take_snapshot(checkout, tmp_path / "code")
    (checkout / "orchestrator" / "__pycache__").mkdir()
    (checkout / "orchestrator" / "__pycache__" / "cell.pyc").write_bytes(b"compiled")
    assert take_snapshot(checkout, tmp_path / "code") == first
    (checkout / "problems" / "level1" / "99_untracked.py").write_text("new = True\n")
    second = take_snapshot(checkout, tmp_path / "code")
    assert second != first and (second / "problems" / "level1" / "99_untracked.py").read_text() == "new = True\n"
    assert sorted(tmp_path.joinpath("code").iterdir()) == sorted([first, second])


def test_a_changed_copy_is_refused(checkout: Path, tmp_path: Path) -> None:
    copy = take_snapshot(checkout, tmp_path / "code")
    file = copy / "agents" / "factory.py"
    file.chmod(0o644)
    file.write_text("changed\n")
    with pytest.raises(StoreError, match=r"is not what its name says: delete that folder"):
        take_snapshot(checkout, tmp_path / "code")


def test_a_copy_is_made_in_half_a_second(tmp_path: Path) -> None:
    cpu_s = time.process_time()
    take_snapshot(CHECKOUT, tmp_path)
    assert time.process_time() - cpu_s < 0.5


def test_a_worker_imports_its_jobs_code_wherever_it_is_started(checkout: Path, tmp_path: Path) -> None:
    copy = take_snapshot(checkout, tmp_path / "code")
    job = Job(id="j", root=str(tmp_path), cache_dir=str(tmp_path), code_dir=str(copy))
    command, variables = worker_command(job, "7")
    assert command[-6:] == ["--root", str(tmp_path), "--job", "j", "--id", "7"]
    python = command[: command.index("-m")]
    program = "import json, agents, evaluation, orchestrator, problems as p;"
    program += "print(json.dumps([m.__file__ for m in (agents, evaluation, orchestrator, p)]))"
    found = subprocess.run(
        [*python, "-c", program], env=os.environ | variables, cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert {Path(file).parent.parent for file in json.loads(found.stdout)} == {copy}

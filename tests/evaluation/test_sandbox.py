"""What a candidate can and cannot reach; each probe is a candidate that succeeds if it gets through."""

import os
from pathlib import Path

import pytest

from evaluation.errors import EvaluatorError
from evaluation.judge import Judge
from evaluation.sandbox import sandbox
from evaluation.verdict import Fault, Solution, Stage, Status
from evaluation.worker.handle import Zygote
from evaluation.worker.processes import descendants

ATTEMPTS = {
    "read_the_checkout": "pathlib.Path(CHECKOUT, 'pyproject.toml').read_text()",
    "write_to_the_system": "pathlib.Path('/usr/kernelsweep').write_text('x')",
    "write_to_site_packages": "pathlib.Path(torch.__file__).with_name('x.py').write_text('x')",
    "use_the_network": "socket.create_connection(('192.0.2.1', 80), timeout=1)",
    "leave_its_cores": "os.sched_setaffinity(0, {0})",
    "signal_the_judge": "os.kill(JUDGE, 0)",
    "see_the_judge": "os.stat(f'/proc/{JUDGE}/environ') if JUDGE > 9 else 1 / 0",
    "write_the_supervisors_memory": "open('/proc/1/mem', 'r+b')",
    "make_namespaces": "os.stat('/') if ctypes.CDLL(None).unshare(0x10000000) == 0 else 1 / 0",
    "trace_a_process": "os.stat('/') if ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0 else 1 / 0",
}
PERMITTED = {
    "its_own_folder": "pathlib.Path('scratch').write_text('x')",
    "temporary_files": "tempfile.TemporaryFile()",
    "subprocesses": "subprocess.run(['true'], check=True)",
    "threads": "threading.Thread(target=int).start()",
    "source_of_its_functions": "inspect.getsource(ModelNew)",
}


def module(statement):
    return Solution(
        source=f"""
import ctypes, inspect, os, pathlib, socket, subprocess, tempfile, threading, torch
CHECKOUT, JUDGE = {str(Path(__file__).parents[2])!r}, {os.getpid()}
class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        {statement}
"""
    )


@pytest.mark.parametrize("name", ATTEMPTS)
def test_a_candidate_does_not_get_through(judge, affine, name):
    if judge.zygote.level < sandbox.Level.READ_ONLY_ROOT:
        pytest.skip(f"this machine permits sandbox level {int(judge.zygote.level)} only")
    evaluation = judge.evaluate(affine, module(ATTEMPTS[name]), Stage.BUILD)
    assert evaluation.status is Status.RUNTIME_ERROR, evaluation.message


@pytest.mark.parametrize("name", PERMITTED)
def test_an_honest_candidate_may(judge, affine, name):
    evaluation = judge.evaluate(affine, module(PERMITTED[name]), Stage.BUILD)
    assert evaluation.status is Status.PASSED, evaluation.message


def test_no_key_is_in_the_candidates_environment(judge, affine, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "secret-value")
    assert not any("secret" in value for value in sandbox.clean_environment(1).values())
    evaluation = judge.evaluate(affine, module("print(dict(os.environ), flush=True)"), Stage.BUILD)
    assert "'HOME'" in evaluation.log
    assert "KEY" not in evaluation.log


def test_a_lower_level_than_asked_for_is_refused_in_one_sentence():
    with pytest.raises(EvaluatorError, match=r"require_sandbox=2 but this machine permits level 0"):
        sandbox.check_level(sandbox.Level.PROCESS, 2)
    sandbox.check_level(sandbox.Level.READ_ONLY_ROOT, 2)


@pytest.mark.parametrize("level", list(sandbox.Level))
def test_every_level_runs_and_kills(level, affine, candidate, settings, tmp_path):
    if level > sandbox.best_level():
        pytest.skip(f"this machine does not permit level {int(level)}")
    with Judge(settings, tmp_path, Zygote(1, level)) as judge:
        assert judge.evaluate(affine, candidate("leaves_child"), Stage.CORRECTNESS).status is Status.PASSED
        assert judge.evaluate(affine, candidate("kills_itself"), Stage.CORRECTNESS).fault is Fault.KILLED_BY_SIGNAL
        assert descendants(judge.zygote.pid) == []

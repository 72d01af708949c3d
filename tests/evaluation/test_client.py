"""The evaluator from outside: a server process, its death and its end."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from evaluation.client import Evaluator, EvaluatorError
from evaluation.settings import EvaluationSettings
from evaluation.verdict import Solution, Stage, Status
from evaluation.worker.processes import descendants

NATIVE = """
import torch
from torch.utils.cpp_extension import load_inline

source = "torch::Tensor twice(torch::Tensor x) {{ return x {operator} x; }}"
own = load_inline("own", cpp_sources=source, functions=["twice"])


class ModelNew(torch.nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return own.twice(x)
"""


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory, settings):
    folder = tmp_path_factory.mktemp("client")
    with Evaluator(settings, folder / "cache", folder / "logs" / "evaluator.log") as evaluator:
        yield evaluator


def server_pid():
    below = descendants(os.getpid())
    return next(pid for pid in below if b"evaluation.server" in Path(f"/proc/{pid}/cmdline").read_bytes())


def test_threads_share_one_server(evaluator, affine, candidate):
    found = {}

    def ask(name):
        found[name] = evaluator.evaluate(affine, candidate(name), Stage.CORRECTNESS).status

    # A thread that has started the server and ended must not take the server with it.
    for name in ("correct", "zeros"):
        thread = threading.Thread(target=ask, args=(name,))
        thread.start()
        thread.join()
    threads = [threading.Thread(target=ask, args=(name,)) for name in ("raises", "early_exit")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {
        "correct": Status.PASSED,
        "zeros": Status.INCORRECT_VALUES,
        "raises": Status.RUNTIME_ERROR,
        "early_exit": Status.RUNTIME_ERROR,
    }


def test_a_server_that_dies_is_started_again(evaluator, affine, candidate):
    evaluator.evaluate(affine, candidate("correct"), Stage.BUILD)
    before = server_pid()
    os.kill(before, signal.SIGKILL)
    assert evaluator.evaluate(affine, candidate("correct"), Stage.BUILD).status is Status.PASSED
    assert server_pid() != before


def test_a_server_whose_zygote_died_is_replaced(evaluator, affine, candidate):
    evaluator.evaluate(affine, candidate("correct"), Stage.BUILD)
    before = server_pid()
    for pid in descendants(before):
        if b"evaluation.worker.zygote" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    assert evaluator.evaluate(affine, candidate("correct"), Stage.BUILD).status is Status.PASSED
    assert server_pid() != before


def test_a_machine_that_is_not_fit_is_a_fault_of_ours_in_one_sentence(tmp_path, affine, candidate):
    settings = EvaluationSettings(cpu_threads=10_000)
    with Evaluator(settings, tmp_path) as evaluator, pytest.raises(EvaluatorError, match="cpu_threads=10000 but only"):
        evaluator.evaluate(affine, candidate("correct"), Stage.BUILD)


def test_the_server_and_its_workers_end_with_their_client(tmp_path, data_folder):
    script = tmp_path / "client.py"
    script.write_text(
        "import sys, pathlib\n"
        "from evaluation.client import Evaluator\n"
        "from evaluation.settings import EvaluationSettings\n"
        "from evaluation.verdict import Solution, Stage\n"
        "from problems.library import read_problem\n"
        "problem, source = read_problem(pathlib.Path(sys.argv[1])), pathlib.Path(sys.argv[2]).read_text()\n"
        "evaluator = Evaluator(EvaluationSettings(), pathlib.Path(sys.argv[3]))\n"
        "evaluator.evaluate(problem, Solution(source=source), Stage.CORRECTNESS)\n"
    )
    names = ("problems/1_affine.py", "candidates/never_returns.py")
    arguments = [*(data_folder / name for name in names), tmp_path / "cache"]
    client = subprocess.Popen([sys.executable, script, *arguments])
    deadline = time.monotonic() + 120
    while len(descendants(client.pid)) < 4 and time.monotonic() < deadline:
        time.sleep(0.1)
    below = descendants(client.pid)
    client.kill()
    client.wait()
    while any(map(alive, below)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(below) >= 4
    assert [pid for pid in below if alive(pid)] == []


def alive(pid):
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


def test_the_client_loads_no_torch():
    code = "import sys, evaluation.client; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_has_no_code_for_a_gpu_is_told(evaluator, affine, candidate):
    plain = evaluator.disassemble(affine, candidate("correct"))
    assert plain.kernels == [] and plain.absent.startswith("the module has no native build")
    assert (plain.evaluation.status, plain.evaluation.stage) == (Status.PASSED, Stage.BUILD)
    native = evaluator.disassemble(affine, Solution(source=NATIVE.format(operator="+")))
    assert native.absent == "the native builds hold no code for a GPU"
    assert [build.name for build in native.evaluation.builds] == ["own"]
    broken = evaluator.disassemble(affine, Solution(source=NATIVE.format(operator="+;")))
    assert (
        broken.absent == "the kernel did not build: COMPILE_ERROR"
        and "expected primary-expression" in broken.evaluation.message
    )

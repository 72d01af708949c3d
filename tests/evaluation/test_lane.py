import errno
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evaluation.errors import EvaluatorError
from evaluation.timing import lane

HOLD = """
import sys
from evaluation.timing import lane
with lane.held(int(sys.argv[1])) as cores:
    print(sorted(cores), flush=True)
    input()
"""

HOLD_DEVICE = """
import sys
from evaluation.timing import lane
print("asks", flush=True)
with lane.device_held(sys.argv[1]) as waited_s:
    print(waited_s, flush=True)
    input()
"""
ONE_GPU = "GPU-01234567-89ab-cdef-0123-456789abcdef"
OTHER_GPU = "GPU-11234567-89ab-cdef-0123-456789abcdef"


def holder(threads):
    arguments = [sys.executable, "-c", HOLD, str(threads)]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def device_holder(uuid):
    arguments = [sys.executable, "-c", HOLD_DEVICE, uuid]
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "asks\n"
    return process


@pytest.fixture(autouse=True)
def lanes_of_its_own(tmp_path, monkeypatch):
    """Apart from those of evaluations that run on this machine at the same time."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


def test_holder_is_kept_on_its_cores_and_let_go():
    before = os.sched_getaffinity(0)
    with lane.held(1) as cores:
        assert os.sched_getaffinity(0) == cores
        assert len(cores) == 1
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("leads", [True, False])
def test_only_a_session_of_its_own_goes_ahead_with_the_holder(leads):
    """Of strangers in its session none may take the cores of everybody else, its candidates' among them."""
    group = Path("/proc/self/autogroup")
    before = group.read_text() if group.exists() else ""
    arguments = [sys.executable, "-c", HOLD, "1"]
    held = subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=leads
    )
    assert held.stdout.readline()
    permitted = os.getpriority(os.PRIO_PROCESS, held.pid) == lane.TIMED_NICE
    own = Path(f"/proc/{held.pid}/autogroup").read_text() if group.exists() else ""
    after = group.read_text() if group.exists() else ""
    held.communicate("\n")
    assert after == before
    assert own.endswith(f" nice {lane.TIMED_NICE}\n") is (leads and permitted and group.exists())


def test_a_lane_has_one_holder_and_is_free_when_that_dies():
    everything = len(os.sched_getaffinity(0))
    first = holder(everything)
    assert first.stdout.readline()
    second = holder(everything)
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(1.0)
    first.kill()
    assert second.stdout.readline()
    second.communicate("\n")
    first.communicate()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core has one lane")
def test_two_holders_have_different_cores():
    one, other = holder(1), holder(1)
    assert one.stdout.readline() != other.stdout.readline()
    one.communicate("\n")
    other.communicate("\n")


def test_too_few_cores_are_said_in_one_sentence():
    with pytest.raises(EvaluatorError, match="cpu_threads=1000 but only"):
        lane.core_sets(1000)


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EAGAIN, errno.EPERM, errno.ENOENT])
def test_a_refused_priority_costs_no_measurement(code, monkeypatch):
    """A process outside every session has no scheduling group of its own: the kernel answers EINVAL."""

    def refuse(path, text):
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr("pathlib.Path.write_text", refuse)
    with lane.held(1) as cores:
        assert os.sched_getaffinity(0) == cores


def test_a_gpu_has_one_holder_and_the_next_knows_how_long_it_waited():
    with lane.device_held(ONE_GPU) as waited_s:
        assert waited_s < 1.0
        second = device_holder(ONE_GPU)
        ready, _, _ = select.select([second.stdout], [], [], 0.5)
        assert not ready
    assert 0.4 < float(second.stdout.readline()) < 5.0
    second.communicate("\n")
    assert second.returncode == 0


def test_a_gpu_is_free_when_its_holder_dies():
    first = device_holder(ONE_GPU)
    assert float(first.stdout.readline()) < 1.0
    first.kill()
    first.communicate()
    with lane.device_held(ONE_GPU) as waited_s:
        assert waited_s < 1.0


def test_a_gpu_is_free_when_an_error_ends_the_work_and_a_fork_lives_on():
    child = 0
    try:
        with pytest.raises(ZeroDivisionError), lane.device_held(ONE_GPU):
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            1 / 0  # noqa: B018
        other = device_holder(ONE_GPU)
        assert float(other.stdout.readline()) < 1.0
        other.communicate("\n")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_another_gpu_and_the_cores_are_not_waited_for():
    other = device_holder(OTHER_GPU)
    assert other.stdout.readline()
    with lane.device_held(ONE_GPU) as waited_s, lane.held(1):
        assert waited_s < 1.0
    other.communicate("\n")


def test_four_processes_are_never_two_at_a_time(tmp_path):
    """Each reads a number, waits, and writes the next: turns that overlap lose a step."""
    count = tmp_path / "count"
    count.write_text("0")
    step = (
        "import pathlib, sys, time; from evaluation.timing import lane\n"
        "for _ in range(20):\n"
        "    with lane.device_held(sys.argv[1]):\n"
        "        path = pathlib.Path(sys.argv[2]); seen = int(path.read_text())\n"
        "        time.sleep(0.002); path.write_text(str(seen + 1))\n"
    )
    runs = [subprocess.Popen([sys.executable, "-c", step, ONE_GPU, str(count)]) for _ in range(4)]
    assert [run.wait() for run in runs] == [0] * 4
    assert count.read_text() == "80"


@pytest.mark.parametrize("uuid", ["", "GPU-0", "../x", "01234567-89ab-cdef-0123-456789abcdef", f"{ONE_GPU}/0"])
def test_what_is_no_uuid_is_said_in_one_sentence(uuid):
    with pytest.raises(EvaluatorError, match="is no UUID of a GPU"), lane.device_held(uuid):
        pytest.fail("held")

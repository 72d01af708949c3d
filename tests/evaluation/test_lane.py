import errno
import os
import subprocess
import sys

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


def holder(threads):
    arguments = [sys.executable, "-c", HOLD, str(threads)]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


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

"""ncu's output as it is read, and its program where another stands in its place."""

import os
import stat
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from evaluation.profile import metrics, ncu
from evaluation.profile.arm import ProfileArm
from evaluation.profile.counted import Counting, Ready
from evaluation.settings import LimitSettings

NCU_OUTPUT = Path(__file__).parents[2] / "data" / "ncu"
LIMITS = LimitSettings(load_s=20.0, call_s=10.0)


def output(name):
    return (NCU_OUTPUT / f"{name}.csv").read_text()


def test_kernels_are_read_in_order_with_their_values():
    first, second = ncu.parse(output("two"))
    assert (first.name, second.name) == ("reduce(float *, int)", "gemm(half *, half *, float *)")
    assert first.values[metrics.TIME] == 2000 and second.values[metrics.DRAM[0][1]] == 4000


def test_what_a_device_has_not_is_missing_and_not_zero():
    first, second = ncu.parse(output("two"))
    assert metrics.L1_HIT not in first.values and second.values[metrics.L1_HIT] == 40
    assert metrics.TENSOR["fp8"][0][0] not in second.values


def test_numbers_with_separators_are_numbers():
    (copy,) = ncu.parse(output("copy"))
    assert copy.values[metrics.ISSUED] == 4_718_592


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [("us", "2.5", 2500.0), ("usecond", "2.5", 2500.0), ("ms", "0.25", 250_000.0), ("nsecond", "7", 7.0)],
)
def test_times_are_nanoseconds_whatever_the_unit(unit, text, value):
    lines = f'"ID","Kernel Name","{metrics.TIME}"\n"","","{unit}"\n"0","k","{text}"\n'
    assert ncu.parse(lines)[0].values[metrics.TIME] == value


def test_bytes_are_bytes_whatever_the_unit():
    lines = f'"ID","Kernel Name","{metrics.DRAM[0][0]}"\n"","","Mbyte"\n"0","k","1.5"\n'
    assert ncu.parse(lines)[0].values[metrics.DRAM[0][0]] == 1.5e6


def test_an_unknown_unit_of_what_counts_is_refused():
    lines = f'"ID","Kernel Name","{metrics.DRAM[0][0]}"\n"","","sector"\n"0","k","1"\n'
    assert ncu.parse(lines)[0].values[metrics.DRAM[0][0]] == 1
    with pytest.raises(ncu.NcuError, match="unknown unit, furlong"):
        ncu.parse(lines.replace("sector", "furlong"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (output("refused"), "ERR_NVGPUCTRPERM"),
        (output("nothing"), "no kernel"),
        ("==ERROR== The application returned an error code (11).\n", "error code"),
        ("", "wrote no figures"),
        ('"ID","Kernel Name","a__b"\n"","",""\n"0","k"\n', "2 columns"),
    ],
)
def test_why_there_are_none_is_said(text, reason):
    with pytest.raises(ncu.NcuError, match=reason):
        ncu.parse(text)


def test_the_command_counts_one_marked_call_at_the_clocks_of_timing():
    order = ncu.command(Path("/opt/ncu"), Path("/tmp/log"), ["a", "b"], ["python", "x"])
    joined = " ".join(order)
    for part in (
        "--clock-control none", "--cache-control all", "--profile-from-start off", "--print-units base",
        "--page raw", "--csv", "--target-processes all", "--log-file /tmp/log", "--metrics a,b",
    ):  # fmt: skip
        assert part in joined
    assert order[-2:] == ["python", "x"]


def test_a_machine_without_it_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(ncu, "_USUAL_PLACES", ())
    with pytest.raises(ncu.NcuError, match="not installed"):
        ncu.find()


def program(folder, body):
    """An ncu of our own: `log` is where it should write, `place` and `home` what the worker in it is told."""
    path = folder / "ncu"
    head = f"#!{sys.executable}\nimport os, socket, sys\nfrom pathlib import Path\n"
    told = 'log = Path(sys.argv[sys.argv.index("--log-file") + 1])\nplace, home, library = sys.argv[-3:]\n'
    path.write_text(head + told + body)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


RUN_A_WORKER = """
sys.path.insert(0, os.getcwd())
from evaluation.worker.main import serve
if os.fork() == 0:
    os.chdir(home)
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(place)
    serve(sock, Path(home))
    os._exit(0)
os.wait()
"""


def test_a_worker_in_it_loads_a_candidate_and_its_end_gives_the_counters(tmp_path):
    found = program(tmp_path, RUN_A_WORKER + f"log.write_text(Path({str(NCU_OUTPUT / 'copy.csv')!r}).read_text())\n")
    with closing(Counting(found, Path("/none"), LIMITS, 1)) as counting:
        worker = counting.worker()
        arm = ProfileArm(worker, LIMITS, lambda request: pytest.fail(f"asked to build {request.name}"))
        arm.load("class ModelNew: pass", "ModelNew")
        (kernel,) = counting.kernels(worker)
    assert kernel.values[metrics.GRID] == 16384


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (f"log.write_text(Path({str(NCU_OUTPUT / 'refused.csv')!r}).read_text())\n", "ERR_NVGPUCTRPERM"),
        ("sys.exit(9)\n", "ended with code 9 before"),
    ],
)
def test_one_that_ends_at_once_is_told_of(tmp_path, body, reason):
    with closing(Counting(program(tmp_path, body), Path("/none"), LIMITS, 1)) as counting:
        with pytest.raises(ncu.NcuError, match=reason):
            counting.worker()


def test_one_that_does_not_end_is_killed_with_all_below_it(tmp_path, monkeypatch):
    monkeypatch.setattr("evaluation.profile.counted._WRITE_LIMIT_S", 0.5)
    body = RUN_A_WORKER + f"Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\nimport time\ntime.sleep(60)\n"
    with closing(Counting(program(tmp_path, body), Path("/none"), LIMITS, 1)) as counting:
        worker = counting.worker()
        with pytest.raises(ncu.NcuError, match="did not end"):
            counting.kernels(worker)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and Path(f"/proc/{pid}").exists():
        time.sleep(0.01)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_program_that_cannot_be_started_is_told_of(tmp_path):
    with pytest.raises(ncu.NcuError, match="cannot be started"):
        Counting(tmp_path / "nothing", Path("/none"), LIMITS, 1)


def test_one_that_is_ready_is_taken_unless_another_ncu_is_meant(tmp_path, monkeypatch):
    places = [tmp_path / name for name in "ab"]
    for place in places:
        place.mkdir()
        program(place, "import time\ntime.sleep(60)\n")
    monkeypatch.setenv("PATH", str(places[0]), prepend=":")
    ready = Ready(lambda found: Counting(found, Path("/none"), LIMITS, 1))
    with closing(ready):
        ready.refill()
        ready.refill()
        with closing(ready.take()) as first, closing(ready.take()) as second:
            assert first is not second and first.program == second.program == places[0] / "ncu"
        ready.refill()
        monkeypatch.setenv("PATH", str(places[1]), prepend=":")
        with closing(ready.take()) as other:
            assert other.program == places[1] / "ncu"


def test_what_hinders_one_from_being_ready_is_said_when_it_is_taken(tmp_path):
    def refused(found):
        raise ncu.NcuError(f"{found.name} is not for us")

    program(tmp_path, "")
    ready = Ready(refused)
    ready.refill()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", str(tmp_path), prepend=":")
        with pytest.raises(ncu.NcuError, match="not for us"):
            ready.take()

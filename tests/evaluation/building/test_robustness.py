"""What the machine does to a build is not the candidate's fault, and what one process builds the others find."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from evaluation.building import Builder, BuildRequest
from evaluation.building.limits import Compartment, Completed
from evaluation.building.places import Places, places_here
from evaluation.building.toolchain import LITE_FOLDER, SLIM_FOLDER, ToolchainError
from evaluation.serialize import to_plain
from evaluation.settings import LimitSettings

CHECKOUT = Path(__file__).parents[3]
REQUEST = BuildRequest(
    name="minus", cpp_sources=["torch::Tensor minus(torch::Tensor x) { return -x; }"], functions={"minus": "negates"}
)
KILLED = "c++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n"


def test_a_compiler_that_was_killed_is_told_from_one_that_says_so(tmp_path: Path) -> None:
    compartment = Compartment(folder=tmp_path, readable=[], memory_bytes=2**30, deadline=time.monotonic() + 20)
    done = compartment.run(["sh", "-c", "kill -9 $$"])
    assert done.killed_by_machine
    said = Completed(returncode=1, output=KILLED, wall_s=1.0)
    assert (said.killed, said.killed_by_machine) == (True, False)
    assert Completed(returncode=1, output=KILLED, wall_s=1.0, short_of_memory=True).killed_by_machine
    quoted = Completed(returncode=1, output=f"main.cpp:1:2: error: #error {KILLED}", wall_s=1.0, short_of_memory=True)
    assert not quoted.killed
    nvcc = "nvcc error   : 'cicc' died due to signal 9 (Kill signal)\n"
    assert Completed(returncode=1, output=nvcc, wall_s=1.0, short_of_memory=True).killed_by_machine
    assert not Completed(returncode=-9, output="", wall_s=1.0, timed_out=True).killed


def test_a_build_that_the_machine_kills_is_ours_and_not_remembered(tmp_path: Path) -> None:
    builder = Builder(tmp_path, LimitSettings())
    raised: list[BaseException] = []

    def build() -> None:
        try:
            builder.build(REQUEST)
        except ToolchainError as error:
            raised.append(error)

    building = threading.Thread(target=build)
    building.start()
    while building.is_alive():  # whichever step of the build each look finds
        for process in _children_that_compile("main.cpp"):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)
    building.join()
    assert "killed c++ while it compiled" in str(raised[0])
    assert builder.stats().entries == 0
    assert builder.build(REQUEST).ok


def _children_that_compile(source: str) -> list[int]:
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    found = []
    for listed in children:
        with suppress(FileNotFoundError, ProcessLookupError):
            found += [int(word) for word in listed.read_text().split()]
    return [child for child in found if source in _command(child)]


def _command(pid: int) -> list[str]:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return []


def test_two_processes_that_ask_for_the_same_build_share_one_compile(tmp_path: Path) -> None:
    program = (
        "import json, sys; from pathlib import Path; from evaluation.building import Builder, BuildRequest;"
        "from evaluation.serialize import from_plain, to_plain; from evaluation.settings import LimitSettings;"
        "builder = Builder(Path(sys.argv[1]), LimitSettings()); print(flush=True); sys.stdin.readline();"
        "reply = builder.build(from_plain(BuildRequest, json.loads(sys.argv[2]))); print(json.dumps(to_plain(reply)))"
    )
    command = [sys.executable, "-c", program, str(tmp_path), json.dumps(to_plain(REQUEST))]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT) for _ in "ab"
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    replies = [json.loads(process.communicate()[0]) for process in _all_told(processes)]
    assert [reply["ok"] for reply in replies] == [True, True]
    assert sorted(reply["cached"] for reply in replies) == [False, True]


def _all_told(processes: list[subprocess.Popen[str]]) -> list[subprocess.Popen[str]]:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return processes


def test_places_are_given_in_the_order_of_asking_and_shared_by_processes(tmp_path: Path) -> None:
    places, elsewhere = Places(tmp_path, 1), Places(tmp_path, 1)
    served: list[int] = []

    def ask(number: int) -> None:
        with places.one():
            served.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    with elsewhere.one():
        for number, thread in enumerate(threads, start=1):
            thread.start()
            while len(places._row) < number:
                time.sleep(0.001)
        assert served == []
    for thread in threads:
        thread.join()
    assert served == list(range(8))
    assert places_here() >= 1


def test_an_error_while_waiting_for_a_place_leaves_the_row(tmp_path: Path) -> None:
    places = Places(tmp_path, 2)
    with pytest.raises(KeyError), places.one():
        raise KeyError
    with places.one(), places.one():
        pass


def test_a_distribution_carries_our_headers() -> None:
    program = (
        "import setuptools; d = setuptools.Distribution(); d.parse_config_files(); d.set_defaults();"
        "c = d.get_command_obj('build_py'); c.manifest_files = {}; c.ensure_finalized();"
        "print([f'{p}/{f}' for p in d.packages for f in c.find_data_files(p, p.replace('.', '/'))])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=CHECKOUT, check=True)
    carried = run.stdout
    building = LITE_FOLDER.parent
    headers = [
        path.relative_to(building) for path in [*LITE_FOLDER.rglob("*"), *SLIM_FOLDER.rglob("*")] if path.is_file()
    ]
    assert len(headers) > 40
    assert [header for header in headers if f"building/{header}" not in carried] == []

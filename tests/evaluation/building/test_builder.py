from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from evaluation.building import Builder, BuildRequest
from evaluation.building.builder import _runtime_folder
from evaluation.building.cache import Cache, Entry
from evaluation.building.limits import Compartment, can_contain
from evaluation.building.shim import Shim
from evaluation.settings import LimitSettings

SOURCE = """
torch::Tensor plus(torch::Tensor x, double value) {
  auto out = torch::empty_like(x);
  for (int64_t i = 0; i < x.numel(); ++i) out.data_ptr<float>()[i] = x.data_ptr<float>()[i] + value;
  return out;
}
"""
REQUEST = BuildRequest(name="plus_module", cpp_sources=[SOURCE], functions={"plus": "adds"})


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("cache"), LimitSettings())


def _edited(old: str, new: str) -> BuildRequest:
    assert old in SOURCE
    return replace(REQUEST, cpp_sources=[SOURCE.replace(old, new)])


def test_a_kernel_is_built_once_and_found_again(builder: Builder) -> None:
    threads_replies = []
    threads = [threading.Thread(target=lambda: threads_replies.append(builder.build(REQUEST))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(reply.ok and reply.tier == "lite" for reply in threads_replies)
    assert sum(not reply.cached for reply in threads_replies) == 1
    commented = builder.build(replace(REQUEST, cpp_sources=["// the same\n" + SOURCE.replace("\n  ", "\n\t\t")]))
    assert (commented.cached, commented.path) == (True, threads_replies[0].path)
    module = Shim(builder.build).load_inline("plus_module", SOURCE, functions={"plus": "adds"})
    assert torch.equal(module.plus(torch.ones(3), 2), torch.full((3,), 3.0))
    assert module.plus.__doc__ == "adds"
    assert builder.stats().entries >= 1


def test_modules_of_one_name_live_side_by_side(builder: Builder) -> None:
    shim = Shim(builder.build)
    first = shim.load_inline("plus_module", SOURCE, functions={"plus": "adds"})
    second = shim.load_inline("plus_module", SOURCE.replace("+ value", "- value"), functions=["plus"])
    x = torch.ones(2)
    assert (first.plus(x, 1)[0], second.plus(x, 1)[0]) == (2, 0)
    with pytest.raises(TypeError, match="argument 1 is int; accepted is"):
        first.plus(3, 1)


def test_a_damaged_object_is_built_again(builder: Builder) -> None:
    built = builder.build(REQUEST)
    assert built.path is not None
    with Path(built.path).open("r+b") as file:
        file.seek(100)
        file.write(b"damage")
    again = builder.build(REQUEST)
    assert (again.ok, again.cached, again.path) == (True, False, built.path)
    assert builder.build(REQUEST).cached


def test_the_claim_of_a_killed_builder_is_free(builder: Builder) -> None:
    key = builder.build(REQUEST).key
    builder.prune(0)
    claim = _runtime_folder() / f"{key}.claim"
    code = "import fcntl,sys,time; f=open(sys.argv[1],'w'); fcntl.flock(f, 2); print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code, str(claim)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        waiting = threading.Thread(target=builder.build, args=(REQUEST,))
        waiting.start()
        time.sleep(0.3)
        assert waiting.is_alive()
        assert builder.stats().entries == 0
        holder.send_signal(signal.SIGKILL)
    waiting.join()
    assert builder.build(REQUEST).cached
    with claim.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_limit_is_the_candidates_and_not_remembered(tmp_path: Path) -> None:
    hurried = Builder(tmp_path, LimitSettings(build_s=0.05))
    reply = hurried.build(REQUEST)
    assert not reply.ok
    assert "longer than the limit of 0.05 s" in reply.diagnostics
    assert hurried.stats().entries == 0


@pytest.mark.parametrize(("memory_bytes", "enough"), [(2**31, True), (2**27, False)])
def test_memory_is_bounded(tmp_path: Path, memory_bytes: int, enough: bool) -> None:
    compartment = Compartment(
        folder=tmp_path,
        readable=[],
        memory_bytes=memory_bytes,
        deadline=time.monotonic() + 20,
    )
    done = compartment.run(["sh", "-c", "x=$(head -c 200000000 /dev/zero | tr '\\0' a); echo ${#x}"])
    assert (done.ok, done.timed_out, "200000000" in done.output) == (enough, False, enough)


def test_files_are_bounded_and_commands_that_are_missing_are_ours(tmp_path: Path) -> None:
    compartment = Compartment(folder=tmp_path, readable=[], memory_bytes=2**30, deadline=time.monotonic() + 20)
    assert not compartment.run(["dd", "if=/dev/zero", "of=large", "bs=1M", "count=1", "seek=600"]).ok
    assert compartment.run(["dd", "if=/dev/zero", "of=large", "bs=1M", "count=1", "seek=100"]).ok
    with pytest.raises(FileNotFoundError, match="no-such-compiler is not installed"):
        compartment.run(["no-such-compiler"])


def test_a_refused_flag_is_one_sentence(builder: Builder) -> None:
    reply = builder.build(replace(REQUEST, extra_cflags=["-fplugin=evil.so"]))
    assert (reply.ok, reply.cached) == (False, False)
    assert reply.diagnostics.startswith("extra_cflags: the flag '-fplugin=evil.so' is not allowed")


@pytest.mark.skipif(not can_contain(), reason="bubblewrap cannot run here")
def test_a_contained_compile_sees_no_file_of_the_machine_and_leaves_no_process(tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("int secret;\n")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "a.cpp").write_text(f'#include "{secret}"\n')
    compartment = Compartment(folder=inside, readable=[], memory_bytes=2**30, deadline=time.monotonic() + 20)
    assert "No such file" in compartment.run(["c++", "-E", "a.cpp"]).output
    assert "PATH=" in (shown := compartment.run(["env"]).output)
    assert not {line.split("=")[0] for line in shown.splitlines()} - {"PATH", "TMPDIR", "LC_ALL", "PWD", "_", "SHLVL"}
    compartment.deadline = time.monotonic() + 0.5
    assert compartment.run(["sh", "-c", f"echo $$ > pid; sleep {os.getpid()}.25"]).timed_out
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert f"sleep {os.getpid()}.25" not in listing


def test_pruning_removes_what_was_used_longest_ago(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    entry = Entry(tier="stock", wall_s=1.0, sha256=None, diagnostics="x" * 1000)
    for i in range(4):
        cache.put(f"{i}0key", entry, None)
        os.utime(tmp_path / f"{i}0" / f"{i}0key" / "entry.json", (i, i))
    assert cache.get("00key") is not None  # used just now
    size = cache.stats().size_bytes
    removed = cache.prune(size // 2)
    assert cache.stats().size_bytes == size - removed <= size // 2
    assert [cache.get(f"{i}0key") is not None for i in range(4)] == [True, False, False, True]

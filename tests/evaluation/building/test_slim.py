"""The slim headers, and what becomes of the compile beside them."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.building import Builder, BuildRequest
from evaluation.building.compile import Bench, Workshop
from evaluation.building.places import Places, Stopped
from evaluation.building.slim import NAMED_FOLDER, named_headers, needs_python, slim_applies
from evaluation.building.sources import Plan, Unit
from evaluation.building.strategy import Strategy
from evaluation.building.toolchain import Toolchain
from evaluation.settings import LimitSettings

OPERATORS, FACTORIES = (f"{NAMED_FOLDER}/kernelsweep_slim_named/{name}.h" for name in ("operators", "factories"))
# A process that no other test starts.
LASTING = f"sleep 600.{os.getpid()}"


def _workshop(folder: Path, places: int) -> Workshop:
    limits = LimitSettings()
    return Workshop(toolchain=Toolchain.find(), limits=limits, scratch=folder, places=Places(folder, places))


def _plan(*scripts: str) -> Plan:
    """A plan whose units run these scripts, and whose link makes an empty object."""
    units = tuple(Unit(f"{i}.cpp", f"{i}.o", ("sh", "-c", script)) for i, script in enumerate(scripts))
    return Plan({}, units, ("touch", "made.so"), "made.so", cuda=False)


@contextmanager
def _benches(folder: Path, places: int, *plans: Plan) -> Iterator[tuple[Strategy, list[Bench]]]:
    workshop = _workshop(folder, places)
    strategy = Strategy(workshop, "90a", folder)
    with workshop.bench(plans[0]) as first, workshop.bench(plans[1]) as second:
        yield strategy, [first, second]
    assert not [path for path in folder.iterdir() if path.name.startswith("build-")]
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert LASTING not in listing
    with workshop.places.one():  # nobody is left in the row, and the place is free
        assert len(workshop.places._row) == 0


def test_the_first_object_counts_and_the_other_compile_leaves_nothing(tmp_path: Path) -> None:
    slow = _plan(f"{LASTING} & {LASTING}", LASTING)
    start = time.monotonic()
    with _benches(tmp_path, 4, _plan("sleep 0.3"), slow) as (strategy, (slim, stock)):
        built = strategy._by_either(slim, stock)
        assert (built.tier, built.final) == ("slim", True)
        assert built.library is not None and built.library.exists()
    with _benches(tmp_path, 4, slow, _plan("sleep 0.3")) as (strategy, (slim, stock)):
        assert strategy._by_either(slim, stock).tier == "stock"
    assert time.monotonic() - start < 10


def test_torchs_own_headers_have_the_last_word(tmp_path: Path) -> None:
    refused = _plan("echo main.cpp:1:2: error: as torch says; exit 1")
    with _benches(tmp_path, 4, _plan(LASTING), refused) as (strategy, (slim, stock)):
        built = strategy._by_either(slim, stock)
        assert (built.tier, built.library, built.final) == ("stock", None, True)
        assert built.diagnostics == "main.cpp:1:2: error: as torch says"
    with _benches(tmp_path, 4, _plan("exit 1"), _plan("sleep 0.3")) as (strategy, (slim, stock)):
        assert strategy._by_either(slim, stock).tier == "stock"
    with _benches(tmp_path, 4, _plan("exit 1"), refused) as (strategy, (slim, stock)):
        assert strategy._by_turns(slim, stock).diagnostics == "main.cpp:1:2: error: as torch says"


def test_a_compile_that_was_stopped_never_starts(tmp_path: Path) -> None:
    with _benches(tmp_path, 1, _plan("touch started"), _plan("touch started")) as (_, (first, second)):
        first.stop()
        with pytest.raises(Stopped):
            first.compile()
        raised: list[BaseException] = []

        def compile_second() -> None:
            try:
                second.compile()
            except Stopped as error:
                raised.append(error)

        waiting = threading.Thread(target=compile_second)
        with second._workshop.places.one():
            waiting.start()
            time.sleep(0.1)
            assert waiting.is_alive()
            second.stop()
            waiting.join(timeout=5)
        assert len(raised) == 1
        assert not (first.folder / "started").exists() and not (second.folder / "started").exists()


def test_an_error_is_told_by_torchs_own_headers(tmp_path: Path) -> None:
    source = '#include <Python.h>\nextern "C" PyObject* PyInit_broken() { return nothing; }\n'
    request = BuildRequest(name="broken", cpp_sources=[source], no_implicit_headers=True)
    reply = Builder(tmp_path, LimitSettings()).build(request)
    assert (reply.ok, reply.tier) == (False, "stock")
    assert reply.diagnostics.startswith("main.cpp: In function 'PyObject* PyInit_broken()':\nmain.cpp:2:47: error: ")


def test_the_headers_have_what_the_sources_name_and_no_more() -> None:
    include = Toolchain.find().torch_folder / "include"
    source = "at::Tensor f(at::Tensor x) { return torch::zeros_like(x) + at::cat({x}) + x.var(0); /* at::matmul */ }"
    made = named_headers(BuildRequest(name="m", cpp_sources=[source]), include)
    assert made[OPERATORS].splitlines()[:5] == [
        "#pragma once",
        "#include <ATen/core/IListRef.h>",
        "#include <ATen/ops/cat.h>",
        "#include <ATen/ops/var.h>",
        "#include <ATen/ops/zeros_like.h>",
    ]
    assert "inline Tensor var(const Tensor& self, int dim)" in made[OPERATORS]
    assert made[FACTORIES].count("inline at::Tensor") == 1
    assert "zeros_like(const at::Tensor & self, at::TensorOptions options" in made[FACTORIES]
    by_flag = BuildRequest(name="m", cpp_sources=["int x;"], extra_cflags=["-DMAKE=torch::ones"])
    assert "#include <ATen/ops/ones.h>" in named_headers(by_flag, include)[OPERATORS]
    shared = BuildRequest(name="m", cpp_sources=["int x;"], headers={"a.h": "torch::from_blob(p, {1}, torch::kInt);"})
    assert named_headers(shared, include)[FACTORIES].count("inline at::Tensor from_blob(") == 4
    assert (needs_python(["void f(py::list x);"]), needs_python([source])) == (True, False)


def test_what_the_preprocessor_may_see_otherwise_is_left_to_torchs_own_headers() -> None:
    def applies(source: str, **more: list[str]) -> bool:
        return slim_applies(replace(BuildRequest(name="m", cpp_sources=[source]), **more))

    assert applies("#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800\nint x;\n#endif\n")
    assert applies("#ifndef CHECK\n#define CHECK(x) x\n#endif\n")
    assert not applies("#define FACTORY(name) torch::name##_like(x)\n")
    assert not applies("  # ifdef AT_PARALLEL_OPENMP\nint x;\n#endif\n")
    assert not applies("#if defined(A) || \\\n  defined(B)\nint x;\n#endif\n", extra_cflags=["-DA=1"])
    assert applies("#if defined(A) || \\\n  defined(B)\nint x;\n#endif\n", extra_cflags=["-DA=1", "-DB"])

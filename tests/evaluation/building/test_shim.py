from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path

import pytest
import torch.utils.cpp_extension

from evaluation.building import shim
from evaluation.building.request import BuildReply, BuildRequest
from evaluation.building.shim import BuildFailed, Shim
from evaluation.serialize import from_plain, to_plain

REFUSED = BuildReply(
    ok=False, path=None, name="m", tier="stock", cached=False, wall_s=0.0, key="", diagnostics="main.cpp:1:2: error: no"
)


class Asked:
    """Answers every request with a refusal and keeps it, as it arrives on the other side of a pipe."""

    def __init__(self) -> None:
        self.requests: list[BuildRequest] = []

    def __call__(self, request: BuildRequest) -> BuildReply:
        self.requests.append(from_plain(BuildRequest, to_plain(request)))
        return from_plain(BuildReply, to_plain(REFUSED))


def test_every_argument_of_the_installed_torch_is_known() -> None:
    stock = torch.utils.cpp_extension
    assert list(inspect.signature(stock.load_inline).parameters) == shim._LOAD_INLINE
    assert list(inspect.signature(stock.load).parameters) == shim._LOAD


def test_load_inline_becomes_a_request() -> None:
    asked = Asked()
    with pytest.raises(BuildFailed, match=r"Error building extension 'm':\nmain.cpp:1:2: error: no"):
        Shim(asked).load_inline(
            "m", "int f();", cuda_sources=["int f() { return 1; }"], functions="f", extra_cflags=["-O3"], verbose=True
        )
    with pytest.raises(BuildFailed):
        Shim(asked).load_inline(name="m", cpp_sources=["a", "b"], functions={"f": "does f"}, is_python_module=False)
    first, second = asked.requests
    assert first == BuildRequest(
        name="m",
        cpp_sources=["int f();"],
        cuda_sources=["int f() { return 1; }"],
        functions={"f": "f"},
        extra_cflags=["-O3"],
    )
    assert first.cuda
    assert (second.functions, second.is_python_module, second.cuda) == ({"f": "does f"}, False, False)


def test_load_reads_the_files_and_their_headers(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.cpp").write_text('#include "sub/a.h"\n#include <vector>\n')
    (tmp_path / "k.cu").write_text('#include "b.h"\n')
    (tmp_path / "sub" / "a.h").write_text('#include "b.h"\n')
    (tmp_path / "b.h").write_text("int b;\n")
    asked = Asked()
    with pytest.raises(BuildFailed):
        Shim(asked).load("m", [str(tmp_path / "a.cpp"), tmp_path / "k.cu"], extra_include_paths=[str(tmp_path)])
    (request,) = asked.requests
    assert (len(request.cpp_sources), len(request.cuda_sources), request.inline) == (1, 1, False)
    assert set(request.headers) == {"sub/a.h", "b.h"}
    assert request.extra_include_paths == []


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"sycl_sources": "x"}, ValueError, "SYCL"),
        ({"with_sycl": True}, ValueError, "SYCL"),
        ({"no_such": 1}, TypeError, "no_such"),
        ({"name": "again"}, TypeError, "name"),
        ({"functions": 3}, ValueError, "functions"),
    ],
)
def test_arguments_that_make_no_sense(arguments: dict[str, object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        Shim(Asked()).load_inline("m", "int f();", **arguments)
    with pytest.raises(ValueError, match="is_standalone"):
        Shim(Asked()).load("m", [], is_standalone=True)
    with pytest.raises(TypeError, match="cpp_sources"):
        Shim(Asked()).load_inline("m")


def test_install_replaces_torchs_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.utils.cpp_extension, "load_inline", None)
    monkeypatch.setattr(torch.utils.cpp_extension, "load", None)
    asked = Asked()
    shim.install(asked)
    with pytest.raises(BuildFailed):
        torch.utils.cpp_extension.load_inline("m", "int f();")
    assert len(asked.requests) == 1


def test_an_object_that_cannot_be_imported_is_asked_for_with_torchs_headers(tmp_path: Path) -> None:
    (tmp_path / "object.so").write_text("no object")
    asked: list[bool] = []

    def ask(request: BuildRequest) -> BuildReply:
        asked.append(request.allow_lite)
        return dataclasses.replace(REFUSED, ok=True, path=str(tmp_path / "object.so"))

    with pytest.raises(ImportError):
        Shim(ask).load_inline("m", "int f();", functions="f")
    assert asked == [True, False]

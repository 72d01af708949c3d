"""Native candidates: what each asks of the builder, and calls to try on what was built."""

from __future__ import annotations

import dataclasses
import runpy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.utils.cpp_extension as extension

from evaluation.building import Builder, BuildReply, BuildRequest
from evaluation.building.shim import Shim

DATA = Path(__file__).parents[1] / "data"
FILES = [*sorted(DATA.glob("candidates/cuda_*.py")), *sorted(DATA.glob("cuda/*.py"))]
NAMES = [path.stem for path in FILES]
"""Candidates with CUDA kernels."""
REFUSED, STOCK_ONLY = "refused", ("binds_itself", "concatenated")
"""The candidate that does not compile, and those that the lite headers leave to torch's own."""
CPP_FILES = sorted(DATA.glob("lite/*.py"))
CPP_NAMES = [path.stem for path in CPP_FILES]
CPP_STOCK_ONLY = ("joined", "own_binding")
"""Candidates in C++ alone, and those of them that the lite headers leave to torch's own."""

Calls = list[tuple[str, tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One file."""

    name: str
    request: BuildRequest
    make_calls: Callable[[], Calls]

    def calls(self) -> Calls:
        """Function names and arguments, the tensors on the GPU; equal at every call."""
        torch.manual_seed(0)
        return [(function, tuple(_on_gpu(value) for value in given)) for function, given in self.make_calls()]


def read_candidate(name: str) -> Candidate:
    """Run the file as far as it asks for a build, without building."""
    request, file = request_of(next(path for path in [*FILES, *CPP_FILES] if path.stem == name))
    return Candidate(name, request, file.get("calls") or _CALLS[name])


def request_of(path: Path) -> tuple[BuildRequest, dict[str, Any]]:
    """What a candidate's file asks of the builder, and its globals after it has asked."""
    asked: list[BuildRequest] = []

    class Asked(Exception):
        pass

    def ask(request: BuildRequest) -> BuildReply:
        asked.append(request)
        raise Asked

    def load_inline(*args: Any, **kwargs: Any) -> None:
        try:
            Shim(ask).load_inline(*args, **kwargs)
        except Asked:
            return

    original = extension.load_inline
    extension.load_inline = load_inline
    try:
        file = runpy.run_path(str(path))
    finally:
        extension.load_inline = original
    return asked[0], file


def merged(names: Sequence[str]) -> tuple[BuildRequest, Callable[[], Calls]]:
    """The sources of C++ candidates as one module, with what all of them need, and all their calls.

    Flags that let the compiler change results are left out.
    """
    candidates = [read_candidate(name) for name in names]
    requests = [candidate.request for candidate in candidates]
    request = BuildRequest(
        name="merged",
        cpp_sources=[source for one in requests for source in one.cpp_sources],
        functions={name: doc for one in requests for name, doc in (one.functions or {}).items()},
        extra_cflags=["-O2", "-fopenmp", "-mavx2", "-mfma"],
        extra_ldflags=["-fopenmp"],
    )

    def calls() -> Calls:
        torch.manual_seed(0)
        return [call for candidate in candidates for call in candidate.make_calls()]

    return request, calls


def without_lite(request: BuildRequest) -> BuildRequest:
    """The same for torch's own headers."""
    return dataclasses.replace(request, allow_lite=False)


def load(builder: Builder, request: BuildRequest) -> tuple[ModuleType, BuildReply]:
    """Build and import. Raises BuildFailed."""
    replies: list[BuildReply] = []

    def ask(request: BuildRequest) -> BuildReply:
        replies.append(builder.build(request))
        return replies[-1]

    module = Shim(ask).load_request(request)
    return module, replies[-1]


def _on_gpu(value: Any) -> Any:
    return value.cuda() if isinstance(value, torch.Tensor) else value


_CALLS: dict[str, Callable[[], Calls]] = {
    "cuda_mean_over_ranks": lambda: [
        ("mean_dim0_cuda", (torch.randn(4, 16, 48),)),
        ("mean_dim0_cuda", (torch.randn(8, 512, 1024),)),
        ("mean_dim0_cuda", (torch.randn(4, 16),)),
        ("mean_dim0_cuda", (torch.randn(4, 16, 48).half(),)),
    ],
    "cuda_gather_linear": lambda: [
        ("fused_allgather_linear", (torch.randn(4, 16, 32), torch.randn(56, 128), torch.randn(56))),
        ("fused_allgather_linear", (torch.randn(4, 16, 32), torch.randn(56, 128))),
    ],
}

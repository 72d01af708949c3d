"""What `timing.py` times: problem files and candidates as text. Sizes are in elements, times those expected of an H200.

Inputs are a random block that is repeated: drawing hundreds of megabytes would take longer than timing them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evaluation.verdict import Solution
from problems.library import read_problem
from problems.problem import Problem

BLOCK = 65_536
"""Columns that are drawn; longer rows repeat them."""
WITHIN_SHORT, WITHIN_LONG = 0.02, 0.005
"""How far from 1 the ratio of equal arms may be, up to 10 us and from 50 us on."""
SLOWDOWN = 1.03
ARCH = "90a"

_FILE = """import torch
import torch.nn as nn

{constants}


class {entry_point}(nn.Module):
    def forward(self, {arguments}):
        return {answer}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""

KERNEL = """
__global__ void mean8_kernel(const float* __restrict__ x, float* __restrict__ out, unsigned n, unsigned folds) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned span = n / folds, column = i % span;
    float sum = 0.0f;
    for (unsigned fold = 0; fold < folds; fold++) {
#pragma unroll
        for (unsigned row = 0; row < 8; row++) sum += x[(size_t)row * n + fold * span + column];
    }
    out[i] = sum / (8 * folds);
}
"""
"""Each output is the mean of 8 rows at `folds` columns; memory is read `folds` times over."""

_MEAN8 = '''import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
{kernel}
torch::Tensor mean8(torch::Tensor x, int64_t folds) {{
    int64_t n = x.size(1);
    auto out = torch::empty({{n}}, x.options());
    mean8_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), n, folds);
    return out;
}}
"""

module = load_inline(
    name="mean8_module",
    cpp_sources=["torch::Tensor mean8(torch::Tensor x, int64_t folds);"],
    cuda_sources=[cuda_source],
    functions=["mean8"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.mean8(x, {folds})
'''

LIBRARY = (
    "#include <cuda_runtime.h>\n"
    + KERNEL
    + """
extern "C" int launch_mean8(const float* x, float* out, unsigned n, unsigned folds, void* stream) {
    mean8_kernel<<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(x, out, n, folds);
    return (int)cudaGetLastError();
}
"""
)
"""The same kernel for `timing_profile.py`, which launches it through ctypes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One problem and a candidate for it."""

    name: str
    problem_source: str
    solution: Solution
    within: float = WITHIN_LONG
    """With equal arms: how far from 1 the ratio may be."""

    def problem(self, folder: Path) -> Problem:
        """The problem, by way of a file in `folder`."""
        path = folder / f"{self.name.replace(' ', '_')}.py"
        path.write_text(self.problem_source)
        return read_problem(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean8Case(Case):
    """The CUDA kernel that does one launch per call; see KERNEL for `n` and `folds`."""

    about_us: float
    n: int
    folds: int = 1


def equal_cases() -> list[Case]:
    """Reference and candidate are the same text."""
    return [
        _equal("relu, 2 us", f"N = {2**18}", "torch.relu(x)", "torch.randn(N)", WITHIN_SHORT),
        _equal("mean of 8, 10 us", *_mean_of_8(2**20), WITHIN_SHORT),
        _equal("mean of 8, 100 us", *_mean_of_8(186 * BLOCK), WITHIN_LONG),
        Case(
            name="cdist, 1 ms",
            problem_source=_cdist("Model", "torch.cdist(x, y, p=1.0)"),
            solution=_plain(_cdist("ModelNew", "torch.cdist(x, y, p=1.0)")),
        ),
    ]


def slower_cases() -> list[Case]:
    """The candidate does the same operation on SLOWDOWN times as many rows, and cuts them off."""
    return [
        _slower("row means, 100 us", _row_means, "x[:ROWS].mean(dim=1)", "x.mean(dim=1)[:ROWS]"),
        _slower("cdist, 1 ms", _cdist, "torch.cdist(x[:ROWS], y, p=1.0)", "torch.cdist(x, y, p=1.0)[:ROWS]"),
    ]


def mean8_cases() -> list[Mean8Case]:
    """From a launch's own time to a millisecond; the last reads its memory eight times over, not to need 4 GB."""
    blocks = {2: 1, 5: 7, 10: 16, 14: 25, 50: 92, 140: 265}
    sizes = {1.5: 1024} | {about_us: count * BLOCK for about_us, count in blocks.items()}
    return [mean8_case(about_us, n) for about_us, n in sizes.items()] + [mean8_case(1000, 265 * BLOCK, folds=8)]


def mean8_case(about_us: float, n: int, folds: int = 1) -> Mean8Case:
    """One size. `n` is a multiple of `folds`, and of BLOCK where it is larger."""
    answer = f"x.view(8, {folds}, N // {folds}).mean(dim=(0, 1)).repeat({folds})" if folds > 1 else "x.mean(dim=0)"
    columns = min(n, BLOCK)
    problem = _FILE.format(
        constants=f"N = {n}",
        entry_point="Model",
        arguments="x",
        answer=answer,
        inputs=f"torch.randn(8, {columns}).repeat(1, N // {columns})",
    )
    candidate = _MEAN8.format(kernel=KERNEL, folds=folds)
    return Mean8Case(
        name=f"mean8 {about_us:g} us",
        problem_source=problem,
        solution=Solution(source=candidate, language="cuda"),
        about_us=about_us,
        n=n,
        folds=folds,
    )


def _equal(name: str, constants: str, answer: str, inputs: str, within: float) -> Case:
    reference, candidate = (
        _FILE.format(constants=constants, entry_point=entry_point, arguments="x", answer=answer, inputs=inputs)
        for entry_point in ("Model", "ModelNew")
    )
    return Case(name=name, problem_source=reference, solution=_plain(candidate), within=within)


def _mean_of_8(n: int) -> tuple[str, str, str]:
    return f"N = {n}", "x.mean(dim=0)", f"torch.randn(8, {BLOCK}).repeat(1, N // {BLOCK})"


def _cdist(entry_point: str, answer: str) -> str:
    """Compute-bound, one block per output, in one kernel. The operands are small enough to draw anew for every call."""
    rows = round(1000 * SLOWDOWN) if "ROWS" in answer else 1000
    return _FILE.format(
        constants="ROWS = 1000",
        entry_point=entry_point,
        arguments="x, y",
        answer=answer,
        inputs=f"torch.randn({rows}, 256), torch.randn(1000, 256)",
    )


def _row_means(entry_point: str, answer: str) -> str:
    """Memory-bound, and the output is too small to count."""
    return _FILE.format(
        constants="ROWS = 26_000",
        entry_point=entry_point,
        arguments="x",
        answer=answer,
        inputs="torch.randn(206, 4096).repeat(130, 1)",
    )


def _slower(name: str, file: Callable[[str, str], str], reference: str, candidate: str) -> Case:
    return Case(name=name, problem_source=file("Model", reference), solution=_plain(file("ModelNew", candidate)))


def _plain(source: str) -> Solution:
    return Solution(source=source, language="torch")

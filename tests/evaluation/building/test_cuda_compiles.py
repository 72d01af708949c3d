from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from corpus import Entry, entries
from corpus_builds import request_of
from cuda_candidates import read_candidate

from evaluation.building import BuildRequest
from evaluation.building.compile import Workshop
from evaluation.building.places import Places
from evaluation.building.sources import LITE, SLIM, plan
from evaluation.building.toolchain import Toolchain
from evaluation.settings import LimitSettings

CORPUS = [entry for name in ("exploits", "honest") for entry in entries(name, "cuda") if entry.language == "cuda"]
KERNEL = (Path(__file__).parents[2] / "data" / "lite" / "mean.cu").read_text()


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(Toolchain.find().nvcc is None, reason="nvcc is not installed"),
]


def refusals(request: BuildRequest, tier: str, folder: Path) -> list[str]:
    """What the compiler says of each unit that it refuses with the tier's headers."""
    toolchain = Toolchain.find()
    made = plan(request, tier, toolchain, "90a", folder)
    workshop = Workshop(toolchain=toolchain, limits=LimitSettings(), scratch=folder, places=Places(folder, 2))
    with workshop.bench(made) as bench:
        return [outcome.output for outcome in bench.compile_units() if not outcome.ok]


def test_a_cuda_candidate_compiles_with_the_lite_headers(tmp_path: Path) -> None:
    request = BuildRequest(
        name="mean_module",
        cpp_sources=["torch::Tensor mean_cuda(torch::Tensor x);"],
        cuda_sources=[KERNEL],
        functions={"mean_cuda": "mean"},
        extra_cuda_cflags=["-O3"],
    )
    start = time.monotonic()
    assert refusals(request, LITE, tmp_path) == []
    assert time.monotonic() - start < LimitSettings().build_s


def test_a_cuda_candidate_compiles_with_the_slim_headers(tmp_path: Path) -> None:
    # Of torch's headers for CUDA, which a torch without it lacks in part, this one needs none. Bindings are tested in
    # test_equivalence.
    request = replace(read_candidate("cuda_gather_linear").request, functions=None)
    assert refusals(request, SLIM, tmp_path) == []


# On a GPU, where they are needed: fifty runs of nvcc are three minutes of a processor.
@pytest.mark.gpu
@pytest.mark.parametrize("tier", [LITE, SLIM])
@pytest.mark.parametrize("entry", CORPUS, ids=[entry.id for entry in CORPUS])
def test_the_cuda_sources_of_the_corpora_compile_with_fewer_headers(entry: Entry, tier: str, tmp_path: Path) -> None:
    request = request_of(entry.solution.source)
    assert request is not None
    cuda = Path(str(Toolchain.find().nvcc)).resolve().parents[1]
    if "cublas_v2.h" in entry.solution.source and not any(cuda.rglob("cublas_v2.h")):
        pytest.skip("cuBLAS is not installed")
    assert refusals(request, tier, tmp_path) == []

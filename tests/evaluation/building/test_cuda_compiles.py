from __future__ import annotations

import time
from pathlib import Path

import pytest

from evaluation.building import BuildRequest
from evaluation.building.compile import Workshop
from evaluation.building.places import Places
from evaluation.building.sources import LITE, plan
from evaluation.building.toolchain import Toolchain
from evaluation.settings import LimitSettings

KERNEL = (Path(__file__).parents[2] / "data" / "lite" / "mean.cu").read_text()


@pytest.mark.slow
@pytest.mark.skipif(Toolchain.find().nvcc is None, reason="nvcc is not installed")
def test_a_cuda_candidate_compiles_with_the_lite_headers(tmp_path: Path) -> None:
    toolchain = Toolchain.find()
    request = BuildRequest(
        name="mean_module",
        cpp_sources=["torch::Tensor mean_cuda(torch::Tensor x);"],
        cuda_sources=[KERNEL],
        functions={"mean_cuda": "mean"},
        extra_cuda_cflags=["-O3"],
    )
    made = plan(request, LITE, toolchain, "90a", tmp_path)
    workshop = Workshop(toolchain=toolchain, limits=LimitSettings(), scratch=tmp_path, places=Places(tmp_path, 2))
    start = time.monotonic()
    with workshop.bench(made) as bench:
        refused = [outcome for outcome in bench.compile_units() if not outcome.ok]
    assert not refused, refused[0].output
    assert time.monotonic() - start < LimitSettings().build_s

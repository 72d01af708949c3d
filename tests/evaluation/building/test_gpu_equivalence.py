"""On a GPU: kernels built with the lite headers do what they do when built with torch's own, to the bit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import cuda_candidates
import pytest
import torch
from cuda_candidates import NAMES, REFUSED, STOCK_ONLY, load, read_candidate
from same_outcome import assert_same, outcome_of

from evaluation.building import Builder
from evaluation.building.shim import BuildFailed
from evaluation.settings import LimitSettings

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    """With every build of the tests below done, as many at once as there are cores."""
    builder = Builder(tmp_path_factory.mktemp("cache"), LimitSettings())
    requests = [read_candidate(name).request for name in NAMES]
    with ThreadPoolExecutor(max_workers=2 * len(requests)) as pool:
        list(pool.map(lambda one: builder.build(one), [*requests, *map(cuda_candidates.without_lite, requests)]))
    return builder


@pytest.mark.parametrize("name", [name for name in NAMES if name != REFUSED])
def test_lite_and_stock_headers_give_the_same_kernels(builder: Builder, name: str) -> None:
    candidate = read_candidate(name)
    lite, lite_reply = load(builder, candidate.request)
    stock, stock_reply = load(builder, cuda_candidates.without_lite(candidate.request))
    assert (lite_reply.tier, stock_reply.tier) == ("slim" if name in STOCK_ONLY else "lite", "stock")
    for number, (function, _) in enumerate(candidate.calls()):
        outcomes = [outcome_of(getattr(module, function), candidate.calls()[number][1]) for module in (lite, stock)]
        torch.cuda.synchronize()
        assert_same(*outcomes)


def test_a_kernel_that_does_not_compile_is_refused_in_the_same_words(builder: Builder) -> None:
    request = read_candidate(REFUSED).request
    with pytest.raises(BuildFailed) as lite:
        load(builder, request)
    with pytest.raises(BuildFailed) as stock:
        load(builder, cuda_candidates.without_lite(request))
    assert 'cuda.cu(8): error: identifier "factor" is undefined' in str(lite.value)
    assert str(lite.value) == str(stock.value)

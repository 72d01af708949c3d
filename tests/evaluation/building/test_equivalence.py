"""All sets of headers build every file of the corpus, and what the objects do is the same to the bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from cuda_candidates import CPP_NAMES, CPP_STOCK_ONLY, load, merged, request_of
from same_outcome import assert_same, outcome_of

from evaluation.building import Builder, BuildRequest
from evaluation.building.parts import lite_flags
from evaluation.building.shim import Shim
from evaluation.building.tokens import identifiers
from evaluation.settings import LimitSettings

CORPUS = Path(__file__).parents[2] / "data" / "lite"
SEEDS = sorted((Path(__file__).parents[2] / "data" / "candidates").glob("cpp_*.py"))


def _x(rows: int = 3, columns: int = 4, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rows * 100 + columns)
    return torch.randn(rows, columns, generator=generator).to(dtype)


CASES: dict[str, list[Callable[[], tuple[Any, ...]]]] = {
    "scaled": [
        lambda: (_x(), 2),
        lambda: (_x(), torch.tensor(2.5)),
        lambda: (_x().double(), 2.0),
        lambda: (_x().t(), 2.0),
        lambda: (_x()[0], 2.0),
        lambda: (_x().long(), 2.0),
        lambda: (_x().half(), 2.0),
        lambda: (torch.nn.Parameter(_x()), 2.0),
    ],
    "leaky_relu": [
        *(
            lambda dtype=dtype: (_x(40, 50, dtype), 0.1)
            for dtype in (torch.float, torch.double, torch.half, torch.bfloat16)
        ),
        lambda: (_x().t(), 0.1),
        lambda: (_x().long(), 0.1),
    ],
    "row_sums": [lambda: (_x(),), lambda: (_x().t(),), lambda: (_x()[0],), lambda: (_x().double(),)],
    "row_extremes": [lambda: (_x(),)],
    "total": [lambda: (_x(40, 5).double(),)],
    "integer_sum": [
        lambda: (_x(dtype=torch.int32),),
        lambda: (_x(dtype=torch.uint8),),
        lambda: (_x(dtype=torch.bool),),
    ],
    "views": [lambda: (_x(2, 4),), lambda: (_x(4, 2).t(),)],
    "properties": [
        lambda: (_x(),),
        lambda: (_x().t()[1:],),
        lambda: (_x(dtype=torch.bool),),
        lambda: (torch.tensor(1.0),),
    ],
    "written": [lambda: (_x(),)],
    "arithmetic": [lambda: (_x(2, 5), _x(2, 5).abs() + 0.5), lambda: (_x(2, 5).double(), _x(2, 5).abs() + 1)],
    "made": [lambda: (_x(),), lambda: (_x().half(),)],
    "item": [lambda: (torch.tensor([1.5]),), lambda: (torch.tensor([3]),), lambda: (_x(),)],
    "described": [
        lambda: (1, 2**40, 1, 0.5, True, "text"),
        lambda: (True, torch.tensor(3), torch.tensor(1.5), 2, None, b"bytes"),
        lambda: (2**31, 1, 1.0, 1.0, True, ""),
        lambda: (1.0, 1, 1.0, 1.0, True, ""),
        lambda: ("1", 1, 1.0, 1.0, True, ""),
        lambda: (1, 1, "1", 1.0, True, ""),
        lambda: (1, 1, 1.0, 1.0, [], ""),
        lambda: (1, 1, 1.0, 1.0, True, 5),
        lambda: (1, 1, 1.0, 1.0),
    ],
    "counted": [
        lambda: ([_x()], (1, 2), None, None),
        lambda: ((_x(), _x()), [], _x(), 5),
        lambda: ([1], [], None, None),
        lambda: (_x(), 3, None, None),
        lambda: ([_x()], [1.5], None, None),
        lambda: ([_x()], [1], 3, None),
    ],
    "doubled_in_place": [lambda: (_x(),), lambda: (None,)],
    "is_even": [lambda: (4,), lambda: (-1,), lambda: (2**32,)],
    "mixed": [lambda: ()],
    "pair": [lambda: (_x(),)],
    "maybe": [lambda: (_x(), True), lambda: (_x(), False)],
    "undefined": [lambda: ()],
    "inner::answer": [lambda: ()],
    "fails": [*(lambda how=how: (_x(), how) for how in range(18))],
    "checked": [*(lambda how=how: (_x(), how) for how in range(8)), lambda: (_x().t(), 0), lambda: (_x().long(), 1)],
    "dispatched": [lambda: (_x(),), lambda: (_x().double(),), lambda: (_x().half(),), lambda: (_x().long(),)],
    "widths": [lambda: (_x(),), lambda: (_x().int(),), lambda: (_x().bool(),)],
    "reduced": [lambda: (_x(),), lambda: (_x().half(),), lambda: (_x().bfloat16(),), lambda: (_x().bool(),)],
    "formats": [
        lambda: (_x(),),
        lambda: (torch.ones(2, 3, 4, 5),),
        lambda: (torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),),
        lambda: (torch.ones(2, 1, 4, 5),),
        lambda: (torch.ones(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d),),
    ],
    "layer_norm": [
        lambda: (_x(), torch.ones(4), torch.zeros(4), 1e-5),
        lambda: (_x().t(), torch.ones(4), torch.zeros(4), 1.0),
    ],
    "mean_dim0": [lambda: (_x(4, 3)[..., None].contiguous(),), lambda: (_x(),)],
    "gather_linear": [lambda: (_x(6, 4).view(2, 3, 4), _x(5, 8), _x()[:, 0].new_ones(5))],
    "matmul_blocked": [lambda: (_x(3, 4), _x(4, 5)), lambda: (_x(3, 4).half(), _x(4, 5).half())],
}
# torch::cat and the factories are not in the lite headers: they send the same corpus to the slim ones.
NOT_LITE = """
torch::Tensor joined(torch::Tensor x) { return torch::cat({x, x}, 0) + torch::std(x, 0, true).mean(); }
std::vector<torch::Tensor> factories(torch::Tensor x) {
  torch::NoGradGuard guard;
  auto options = torch::TensorOptions().dtype(torch::kFloat64).requires_grad(true);
  torch::optional<int64_t> nothing = torch::nullopt;
  return {torch::zeros({2, 3}, options), torch::full({2}, 1.5, torch::dtype(torch::kFloat16)), torch::arange(5),
          torch::arange(0, 1, 0.25, torch::kFloat32), torch::tensor({{1, 2}, {3, 4}}), torch::tensor(3),
          torch::tensor({1.5, 2.5}, torch::kFloat64), torch::from_blob(x.data_ptr(), {2, 2}, x.options()).clone(),
          torch::ones_like(x, options), torch::eye(nothing.value_or(3), torch::device(torch::kCPU)),
          torch::empty({0}, options), torch::full_like(x, 2), torch::linspace(0, 1, 3),
          torch::scalar_tensor(2.0, options)};
}
"""
# The C++ frontend is not in the slim headers either.
NOT_SLIM = "torch::Tensor rectified(torch::Tensor x) { return torch::nn::functional::relu(x); }\n"


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("cache"), LimitSettings())


def _module(builder: Builder, name: str, sources: list[str], functions: list[str]) -> tuple[ModuleType, str]:
    tiers: list[str] = []

    def ask(request: BuildRequest) -> Any:
        reply = builder.build(request)
        tiers.append(reply.tier)
        return reply

    module = Shim(ask).load_inline(name, sources, functions=functions)
    return module, tiers[0]


@pytest.mark.slow
def test_all_headers_give_the_same_programs(builder: Builder) -> None:
    sources = [path.read_text() for path in sorted(CORPUS.glob("*.cpp"))]
    sources += [source for path in SEEDS for source in request_of(path)[0].cpp_sources]
    own_base = [source for source in sources if not _needs_torch_base(source)]
    own_functions = [name for name in CASES if any(name.split("::")[-1] in identifiers(source) for source in own_base)]
    whole, whole_tier = _module(builder, "whole", sources, list(CASES))
    own, own_tier = _module(builder, "own", own_base, own_functions)
    cases = CASES | {name: [lambda: (_x(),), lambda: (_x().double(),)] for name in ("joined", "factories")}
    slim, slim_tier = _module(builder, "whole", [*sources, NOT_LITE], list(cases))
    stock, stock_tier = _module(builder, "whole", [NOT_SLIM, *sources, NOT_LITE], ["rectified", *cases])
    assert (whole_tier, own_tier, slim_tier, stock_tier) == ("lite", "lite", "slim", "stock")
    assert len(own_functions) > len(CASES) / 2
    assert torch.equal(stock.joined(_x()), torch.cat([_x(), _x()]) + _x().std(0, unbiased=True).mean())
    for name, given in cases.items():
        modules = (
            {"slim": slim}
            | ({"lite": whole} if name in CASES else {})
            | ({"own": own} if name in own_functions else {})
        )
        for number, arguments in enumerate(given):
            expected = outcome_of(getattr(stock, name), arguments())
            for tier, module in modules.items():
                outcome = outcome_of(getattr(module, name), arguments())
                try:
                    assert_same(outcome, expected)
                except AssertionError as error:
                    raise AssertionError(f"{name}, case {number}: {tier} {outcome}, stock {expected}") from error


def test_the_candidates_in_cpp_run_with_the_lite_headers(builder: Builder) -> None:
    request, calls = merged([name for name in CPP_NAMES if name not in CPP_STOCK_ONLY])
    module, reply = load(builder, request)
    assert reply.tier == "lite"
    first = {function: arguments for function, arguments in reversed(calls())}
    assert len(first) == len(request.functions or {})
    for function, arguments in first.items():
        outcome = outcome_of(getattr(module, function), arguments)
        assert not isinstance(outcome[0], type), (function, outcome)


def _needs_torch_base(source: str) -> bool:
    return "-DKERNELSWEEP_LITE_TORCH" in lite_flags(BuildRequest(name="one", cpp_sources=[source]))

"""Honest kernels pass and wrong ones fail, on the project's own problems and on references made for the purpose."""

import math
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from evaluation.correctness.admission import admission
from evaluation.correctness.compare import compare
from evaluation.correctness.oracle import Oracle
from problems.inputs import LoadedProblem
from problems.library import Library, read_problem

ROWS = 8
"""Rows of a draw that the honest kernels work on, so that the walk stays short."""


@pytest.fixture(autouse=True)
def one_thread():
    """Small tensors on a shared machine: threads would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def sequential(x):
    """Plain fp32 loop over the last dimension."""
    return torch.from_numpy(np.add.accumulate(x.contiguous().numpy(), axis=-1, dtype=np.float32)[..., -1].copy())


def lanes(x, count=8):
    """As a vectorised loop does: `count` accumulators, added up at the end."""
    x = F.pad(x, (0, -x.shape[-1] % count))
    return sequential(sequential(x.unflatten(-1, (-1, count)).transpose(-1, -2)))


def split(x):
    return sequential(torch.stack([sequential(part) for part in x.chunk(4, dim=-1)], -1))


def kahan(x):
    total, lost = torch.zeros(x.shape[:-1]), torch.zeros(x.shape[:-1])
    for value in x.unbind(-1):
        step = value - lost
        raised = total + step
        total, lost = raised, (raised - total) - step
    return total


SUMS = {
    "sequential": sequential,
    "backwards": lambda x: sequential(x.flip(-1)),
    "lanes": lanes,
    "split": split,
    "fp64": lambda x: x.double().sum(-1).float(),
}


def fast_exp(x):
    return torch.exp2(x * 1.4426950408889634)


def mean_over_ranks(add, _, x):
    return add(x.movedim(0, -1)) * torch.tensor(1 / x.shape[0])


def softmax(add, _, x):
    e = fast_exp(x - x.amax(-1, keepdim=True))
    return e * (1 / add(e).unsqueeze(-1))


def online_softmax(add, _, x):
    top, total = torch.full(x.shape[:-1], -math.inf), torch.zeros(x.shape[:-1])
    for block in x.split(128, dim=-1):
        new = torch.maximum(top, block.amax(-1))
        total = total * torch.exp(top - new) + add(torch.exp(block - new.unsqueeze(-1)))
        top = new
    return torch.exp(x - top.unsqueeze(-1)) / total.unsqueeze(-1)


def masked_pool(add, _, x, valid):
    weights = valid.unsqueeze(-1).float()
    return add((x * weights).transpose(1, 2)) / weights.sum(1)


def row_max(_add, _, x):
    top = x.amax(-1)
    return top, (x == top.unsqueeze(-1)).int().argmax(-1)


def cross_entropy(add, _, logits, targets):
    top = logits.amax(-1)
    return torch.log(add(fast_exp(logits - top.unsqueeze(-1)))) + top - logits.gather(1, targets[:, None])[:, 0]


def gathered_linear(add, weights, x):
    rows = torch.cat(list(x.unbind(0)), -1)
    return add(rows.unsqueeze(1) * weights["proj.weight"]) + weights["proj.bias"]


def bias_gelu(_add, weights, x, residual):
    y = x + weights["bias"]
    return torch.addcmul(residual, y, 0.5 * torch.erfc(-y * 0.7071067811865476))


def layer_norm(add, weights, x, residual):
    y = x + residual
    centred = y - (add(y) / y.shape[-1]).unsqueeze(-1)
    scale = torch.rsqrt(add(centred * centred) / y.shape[-1] + 1e-5).unsqueeze(-1)
    return centred * scale * weights["norm.weight"] + weights["norm.bias"]


HONEST = {
    "level1/23_virtual_all_reduce_mean": [mean_over_ranks],
    "level1/24_row_softmax": [softmax, online_softmax],
    "level1/25_masked_mean_pool": [masked_pool],
    "level1/26_row_max_with_index": [row_max],
    "level1/27_cross_entropy_rows": [cross_entropy],
    "level2/47_virtual_all_gather_concat_linear": [gathered_linear],
    "level2/48_bias_gelu_residual": [bias_gelu],
    "level2/49_residual_layer_norm": [layer_norm],
}
LEADING_DIM_IS_ROWS = [name for name in HONEST if name[7:9] not in ("23", "47")]


@pytest.mark.parametrize("name", HONEST)
def test_honest_kernels_of_own_problems_pass_on_every_value_set(name):
    loaded = LoadedProblem(Library().load(name))
    for seed, value_set in enumerate(loaded.problem.value_sets):
        oracle = Oracle(loaded, seed, "fp32")
        inputs = loaded.draw(seed, value_set=value_set).inputs
        if name in LEADING_DIM_IS_ROWS:
            inputs = [tensor[:ROWS] for tensor in inputs]
        native, exact = oracle.native(inputs), oracle.oracle(inputs)
        judge = partial(compare, native=native, oracle=exact, precision="fp32")
        yardstick = oracle.yardstick(inputs, exact)
        assert judge(native, yardstick=yardstick).passed
        for kernel in HONEST[name]:
            for how, add in SUMS.items():
                result = judge(kernel(add, oracle.state, *oracle.at_precision(inputs)), yardstick=yardstick)
                assert result.passed, f"{kernel.__name__} {how} {value_set}: {result.message}"


def one_pass_layer_norm(add, weights, x, residual):
    y = x + residual
    mean = (add(y) / y.shape[-1]).unsqueeze(-1)
    variance = (add(y * y) / y.shape[-1]).unsqueeze(-1) - mean * mean
    return (y - mean) * torch.rsqrt(variance.clamp(min=0) + 1e-5) * weights["norm.weight"] + weights["norm.bias"]


@pytest.mark.parametrize("how", SUMS)
def test_a_variance_taken_from_squares_fails_far_from_zero_however_it_adds(how):
    loaded = LoadedProblem(Library().load("level2/49_residual_layer_norm"))
    for seed in range(3):
        oracle = Oracle(loaded, seed, "fp32")
        inputs = [tensor[:ROWS] for tensor in loaded.draw(seed, value_set="distant").inputs]
        exact, native = oracle.oracle(inputs), oracle.native(inputs)
        for kernel, right in ((layer_norm, True), (one_pass_layer_norm, False)):
            answer = kernel(SUMS[how], oracle.state, *inputs)
            result = compare(answer, native, exact, "fp32", oracle.yardstick(inputs, exact))
            assert result.passed is right, f"{kernel.__name__}: {result.message}"


@pytest.mark.parametrize("name", Library().names())
def test_own_problems_admit_no_trivially_wrong_answer(name):
    assert admission(LoadedProblem(Library().load(name))) == []


def test_every_own_problem_has_an_honest_kernel_here():
    assert set(HONEST) == set(Library().names())


def load(tmp_path, body, inputs):
    path = tmp_path / "1_made_up.py"
    path.write_text(
        "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
        + f"\n\ndef get_inputs():\n    return {inputs}\n\n\ndef get_init_inputs():\n    return []\n"
    )
    return LoadedProblem(read_problem(path))


def judged(loaded, make, precision="fp32", seed=3):
    """Compare what `make(inputs, state)` returns."""
    oracle = Oracle(loaded, seed, precision)
    inputs = loaded.draw(seed).inputs
    exact = oracle.oracle(inputs)
    answer = make(oracle.at_precision(inputs), oracle.state)
    return compare(answer, oracle.native(inputs), exact, precision, oracle.yardstick(inputs, exact))


MATMUL = "def forward(self, a, b):\n    return a @ b"


def rank_one_updates(a, b, fused=False):
    """The inner loop of a naive matrix product, with or without fused multiply-add."""
    total = torch.zeros(a.shape[0], b.shape[1])
    for k in range(a.shape[1]):
        step = a[:, k : k + 1].double() * b[k].double() if fused else a[:, k : k + 1] * b[k]
        total = (total + step).float()
    return total


def blocked(a, b, size=32):
    return sum(pa @ pb for pa, pb in zip(a.split(size, 1), b.split(size, 0), strict=True))


@pytest.mark.parametrize("depth", [256, 4096])
@pytest.mark.parametrize("make", ["randn", "rand"])
def test_matrix_products(tmp_path, depth, make):
    loaded = load(tmp_path, MATMUL, f"[torch.{make}(24, {depth}), torch.{make}({depth}, 40)]")
    for kernel in (rank_one_updates, partial(rank_one_updates, fused=True), blocked):
        result = judged(loaded, lambda inputs, _, kernel=kernel: kernel(*inputs))
        assert result.passed, f"{kernel}: {result.message}"
    # Rounding errors of many positive products average out, so that fp16's may hide there; other value sets show them.
    for dtype in (torch.bfloat16,) if (make, depth) == ("rand", 4096) else (torch.float16, torch.bfloat16):
        rounded = judged(
            loaded, lambda inputs, _, dtype=dtype: inputs[0].to(dtype).float() @ inputs[1].to(dtype).float()
        )
        assert not rounded.passed
    assert not judged(loaded, lambda inputs, _: inputs[0][:, :-8] @ inputs[1][:-8]).passed


def test_long_sums_may_be_plain_loops(tmp_path):
    loaded = load(tmp_path, "def forward(self, x):\n    return x.sum(-1)", "[torch.rand(8, 100_000)]")
    assert judged(loaded, lambda inputs, _: sequential(inputs[0])).passed
    assert judged(loaded, lambda inputs, _: kahan(inputs[0][:, :1000]) + sequential(inputs[0][:, 1000:])).passed
    assert not judged(loaded, lambda inputs, _: sequential(inputs[0][:, :99_000])).passed


def test_softmax_without_its_maximum_fails_where_that_overflows(tmp_path):
    body = "def forward(self, x):\n    return torch.softmax(x, -1)"
    calm = load(tmp_path, body, "[torch.randn(16, 512)]")
    wild = load(tmp_path, body, "[torch.randn(16, 512) * torch.exp(2 * torch.randn(16, 512))]")
    shortcut = lambda inputs, _: inputs[0].exp() / inputs[0].exp().sum(-1, keepdim=True)  # noqa: E731
    assert judged(calm, shortcut).passed
    result = judged(wild, shortcut)
    assert not result.passed and "NaN or infinity" in result.message


SOFTMAXES = {
    "shifted": lambda x: (x - x.amax(-1, keepdim=True)).log_softmax(-1).exp(),
    "unshifted": lambda x: torch.exp(x - torch.logsumexp(x, -1, keepdim=True)),
}


def test_formulas_are_held_to_the_digits_that_the_inputs_determine(tmp_path):
    """exp(x - logsumexp(x)) is off by up to half an ulp of the largest input, relative: much, where that is large."""
    body, inputs = "def forward(self, x):\n    return torch.softmax(x, -1)", "[torch.randn(64, 1024) * {}]"
    for scale, right in ((1, True), (10, True), (300, False)):
        loaded = load(tmp_path, body, inputs.format(scale))
        for name, formula in SOFTMAXES.items():
            results = [judged(loaded, lambda x, _, f=formula: f(x[0]), seed=seed) for seed in range(4)]
            passed = [result.passed for result in results]
            assert all(passed) if right or name == "shifted" else not all(passed), (scale, name, passed)


@pytest.mark.parametrize("precision", ["fp16", "bf16", "tf32", "fp64"])
def test_other_precisions_have_their_own_rounding(tmp_path, precision):
    body = "def __init__(self):\n    super().__init__()\n    self.layer = nn.Linear(512, 64)\n\n"
    loaded = load(
        tmp_path, body + "def forward(self, x):\n    return torch.relu(self.layer(x))", "[torch.randn(32, 512)]"
    )

    def kernel(inputs, state, keep=lambda tensor: tensor):
        x, weight, bias = (keep(t.float() if precision != "fp64" else t) for t in (inputs[0], *state.values()))
        return torch.relu(x @ weight.T + bias).to(inputs[0].dtype)

    def with_bits(bits):
        return lambda tensor: (lambda m, e: torch.ldexp((m * 2**bits).round() / 2**bits, e))(*torch.frexp(tensor))

    assert judged(loaded, kernel, precision).passed
    if precision == "tf32":
        assert judged(loaded, partial(kernel, keep=with_bits(11)), precision).passed
    coarse = {"fp16": 7, "bf16": 4, "tf32": 8, "fp64": 20}[precision]
    assert not judged(loaded, partial(kernel, keep=with_bits(coarse)), precision).passed


def test_admission_names_what_a_weak_problem_lets_through(tmp_path):
    zeros = load(tmp_path, "def forward(self, x):\n    return (x * 0).sum(-1)", "[torch.randn(64, 32)]")
    assert "zeros as output" in admission(zeros)
    same = load(tmp_path, "def forward(self, x):\n    return x.clamp(-100, 100)", "[torch.randn(64, 32)]")
    assert admission(same) == ["input 0 as output"]
    blind = load(tmp_path, "def forward(self, x):\n    return (x > 0.5)", "[torch.full((64, 32), 0.7)]")
    assert "the answer to other inputs as output" in admission(blind)

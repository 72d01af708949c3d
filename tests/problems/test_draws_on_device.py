"""Inputs and value sets where all tensors are on a GPU. Needs torch, numpy and pytest alone."""

import pytest
import torch

from problems import values
from problems.inputs import LoadedProblem
from problems.library import Library, read_problem
from problems.problem import VALUE_SETS

pytestmark = pytest.mark.gpu
DEVICE = "cuda"
PROBLEMS = ("24", "25", "26", "27", "48", "49")
CPU_MADE = {
    "torch.randn(60, 4, generator=torch.Generator().manual_seed(random.randrange(9**9)))": "a generator of the CPU",
    "torch.from_numpy(np.random.rand(60, 4)).float() + torch.zeros(60, 4)": "numbers of numpy",
}


SOURCE = """
import random
import numpy as np
import torch

class Model(torch.nn.Module):
    def forward(self, x, more):
        return x

def get_inputs():
    return [{}, {{"a": (torch.arange(60), 3)}}]

def get_init_inputs():
    return []
"""


def same(left, right):
    return all(torch.equal(*pair) for pair in zip(values.tensors(left), values.tensors(right), strict=True))


def devices(nest):
    return {tensor.device.type for tensor in values.tensors(nest)}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_draw_depends_on_its_seed_alone(name):
    loaded = LoadedProblem(Library().load(name), DEVICE)
    for case in loaded.problem.cases:
        one, again, other = (loaded.draw(seed, value_set=case).inputs for seed in (7, 7, 8))
        assert same(one, again) and not same(one, other)
        assert devices(one) == {DEVICE}
    assert same(loaded.calls(3, 2), LoadedProblem(Library().load(name), DEVICE).calls(3, 2))
    first, second = loaded.calls(3, 2)
    assert not same(first, second)


@pytest.mark.parametrize("made", CPU_MADE)
def test_inputs_that_a_file_makes_on_the_cpu_are_moved(tmp_path, made):
    path = tmp_path / "mine.py"
    path.write_text(SOURCE.format(made))
    problem = read_problem(path)
    inputs = LoadedProblem(problem, DEVICE).draw(5).inputs
    assert devices(inputs) == {DEVICE} and inputs[1]["a"][1] == 3
    assert same(inputs, LoadedProblem(problem, DEVICE).draw(5).inputs)
    for there, here in zip(values.tensors(inputs), values.tensors(LoadedProblem(problem).draw(5).inputs), strict=True):
        assert torch.equal(there.cpu(), here)


def applied(value_set, *inputs, seed=5):
    changed = [item.clone() for item in inputs]
    values.apply(value_set, changed, torch.Generator().manual_seed(seed))
    return changed


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_each_value_set_has_its_property(dtype):
    x = torch.randn(200, 500, device=DEVICE, generator=torch.Generator(DEVICE).manual_seed(1)).to(dtype)
    loose = {"rtol": 4 * torch.finfo(dtype).eps, "atol": 0.0}
    for value_set in VALUE_SETS[1:]:
        assert same(applied(value_set, x), applied(value_set, x))
        assert not same(applied(value_set, x), applied(value_set, x, seed=6)) or value_set == "integer"
    for seed in range(6):
        up, down = applied("scaled_up", x, seed=seed)[0], applied("scaled_down", x, seed=seed)[0]
        assert any(torch.allclose(up, x * 10.0**power, **loose) for power in (1, 2, 3))
        assert (down.abs() <= 0.11 * x.abs() + torch.finfo(dtype).smallest_normal).all()
        assert 2.7 < float(applied("shifted_up", x, seed=seed)[0].double().mean()) < 10.5
        assert -10.5 < float(applied("shifted_down", x, seed=seed)[0].double().mean()) < -2.7
        assert 95 < abs(float(applied("distant", x, seed=seed)[0].double().mean())) < 310
    tailed, thin, whole = (applied(name, x)[0] for name in ("heavy_tailed", "sparse", "integer"))
    assert tailed.double().abs().max() > 30 * tailed.double().abs().median()
    assert torch.equal(tailed.sign(), x.sign())
    assert 0.09 < float((thin != 0).double().mean()) < 0.11 and torch.equal(thin[thin != 0], x[thin != 0])
    assert torch.equal(whole, whole.round()) and whole.abs().max() <= values.INTEGER_LIMIT


@pytest.mark.parametrize("value_set", VALUE_SETS)
def test_blocks_infinities_and_forms(monkeypatch, value_set):
    monkeypatch.setattr(values, "BLOCK_ELEMENTS", 1000)
    base = torch.randn(64, 8, 40, device=DEVICE)
    base[:, 3] = -torch.inf
    for view in (base.transpose(0, 2), base[1:, ::2], base[:1].expand(5, 8, 40), base.new_ones(()), base.new_empty(0)):
        form, masked = (view.data_ptr(), view.shape, view.stride()), view.isinf()
        before = view.clone()
        values.apply(value_set, [view], torch.Generator().manual_seed(2))
        assert (view.data_ptr(), view.shape, view.stride()) == form
        assert torch.equal(view.isinf(), masked) and not view.isnan().any()
        assert value_set in ("nominal", "sparse", "integer") or not view.numel() or not torch.equal(view, before)
    one, other = (applied("shifted", base[0, :3, :20], seed=4)[0] for _ in range(2))
    assert torch.equal(one, other)


def test_little_memory_beside_the_tensors():
    x = torch.rand(2**14, 2**14, device=DEVICE)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    for value_set in VALUE_SETS:
        values.apply(value_set, [x], torch.Generator().manual_seed(1))
    assert torch.cuda.max_memory_allocated() - before <= 6 * 4 * values.BLOCK_ELEMENTS

"""Each value set does what it says to floating tensors, and nothing to the rest."""

import pytest
import torch

from problems import values
from problems.problem import VALUE_SETS

CHANGING = [name for name in VALUE_SETS if name != "nominal"]


def applied(value_set: str, *inputs, seed: int = 5) -> list:
    changed = [item.clone() if isinstance(item, torch.Tensor) else item for item in inputs]
    values.apply(value_set, changed, torch.Generator().manual_seed(seed))
    return changed


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(200, 50, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("value_set", CHANGING)
def test_a_set_is_determined_by_its_generator(x: torch.Tensor, value_set: str):
    assert torch.equal(applied(value_set, x)[0], applied(value_set, x)[0])
    assert not torch.equal(applied(value_set, x)[0], x)


def test_nominal_changes_nothing(x: torch.Tensor):
    assert torch.equal(applied("nominal", x)[0], x)


def test_scaled_multiplies_everything_by_one_power_of_ten(x: torch.Tensor):
    factors = set()
    for seed in range(60):
        left, right = applied("scaled", x, x[:3] * 2, seed=seed)
        power = torch.log10(left / x)
        assert torch.allclose(power, power.mean().round(), atol=1e-4)
        torch.testing.assert_close(right, left[:3] * 2)
        factors.add(int(power.mean().round()))
    assert factors == {-3, -2, -1, 1, 2, 3}


def test_shifted_moves_the_mean(x: torch.Tensor):
    signs = set()
    for seed in range(20):
        moved = applied("shifted", x, seed=seed)[0]
        assert 2.8 < abs(float(moved.mean())) < 10.5
        assert float(moved.std()) == pytest.approx(float(x.std()), rel=1e-3)
        signs.add(float(moved.mean()) > 0)
    assert signs == {True, False}


@pytest.mark.parametrize("direction, larger", [("scaled_up", True), ("scaled_down", False)])
def test_a_direction_of_scaled_is_kept(x: torch.Tensor, direction: str, larger: bool):
    for seed in range(8):
        assert (applied(direction, x, seed=seed)[0].abs() > x.abs()).all() == larger


@pytest.mark.parametrize("direction, sign", [("shifted_up", 1), ("shifted_down", -1)])
def test_a_direction_of_shifted_is_kept(x: torch.Tensor, direction: str, sign: int):
    for seed in range(8):
        assert sign * float(applied(direction, x, seed=seed)[0].mean()) > 2.8


def test_distant_is_far_from_zero_compared_with_its_spread(x: torch.Tensor):
    for seed in range(8):
        far = applied("distant", x, seed=seed)[0]
        assert 95 < abs(float(far.mean())) / float(far.std()) < 310


def test_heavy_tailed_has_far_outliers(x: torch.Tensor):
    tailed = applied("heavy_tailed", x)[0]
    assert tailed.abs().max() > 30 * tailed.abs().median()
    assert x.abs().max() < 10 * x.abs().median()
    assert torch.equal(tailed.sign(), x.sign())


def test_sparse_leaves_a_tenth(x: torch.Tensor):
    thin = applied("sparse", x)[0]
    kept = thin != 0
    assert 0.08 < float(kept.float().mean()) < 0.12
    assert torch.equal(thin[kept], x[kept])


def test_integers_are_small_whole_and_add_up_exactly(x: torch.Tensor):
    whole = applied("integer", x)[0]
    assert torch.equal(whole, whole.round())
    assert whole.abs().max() <= values.INTEGER_LIMIT
    assert whole.unique().numel() > 10
    assert whole.sum().double() == whole.double().sum()


@pytest.mark.parametrize("value_set", VALUE_SETS)
def test_indices_masks_and_scalars_stay(value_set: str):
    index, mask = torch.arange(10), torch.arange(10) % 2 == 0
    changed = applied(value_set, index, mask, 3, 0.5, "text")
    assert torch.equal(changed[0], index)
    assert torch.equal(changed[1], mask)
    assert changed[2:] == [3, 0.5, "text"]


@pytest.mark.parametrize("value_set", VALUE_SETS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_form_is_preserved(value_set: str, dtype: torch.dtype):
    base = torch.randn(6, 8, 4, generator=torch.Generator().manual_seed(1)).to(dtype) * 100
    views = [base.transpose(0, 2), base[1:, ::2], base[:1].expand(5, 8, 4), base.new_empty(0, 3), base.new_ones(())]
    for view in views:
        data, shape, stride = view.data_ptr(), view.shape, view.stride()
        values.apply(value_set, [view], torch.Generator().manual_seed(2))
        assert (view.data_ptr(), view.shape, view.stride(), view.dtype) == (data, shape, stride, dtype)
        assert view.isfinite().all()


def test_nested_and_repeated_tensors(x: torch.Tensor):
    original = x.clone()
    inputs = [x, {"again": x, "more": (x, [original.clone()])}]
    values.apply("scaled", inputs, torch.Generator().manual_seed(0))
    power = torch.log10(x / original)
    assert torch.allclose(power, power.mean().round(), atol=1e-4)
    assert abs(power.mean().round()) <= 3
    assert torch.equal(inputs[1]["more"][1][0], x)


@pytest.mark.parametrize("value_set", VALUE_SETS)
def test_infinities_stay_where_they_are(x: torch.Tensor, value_set: str):
    x[:, 7] = -torch.inf
    changed = applied(value_set, x)[0]
    assert torch.equal(changed.isinf(), x.isinf())
    assert not changed.isnan().any()


@pytest.mark.parametrize("value_set", CHANGING)
def test_zeros_are_handled(value_set: str):
    assert applied(value_set, torch.zeros(4, 4))[0].isfinite().all()

"""Every problem of our own, in all the value sets and shapes that it declares: is it fit to be asked?"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from problems import values
from problems.inputs import LoadedProblem
from problems.library import Library

LIBRARY = Library()
CASES = [(name, value_set) for name in LIBRARY.names() for value_set in LIBRARY.load(name).value_sets]
SHAPES = pytest.mark.parametrize("shapes", ["fixed", "jitter"])
EACH = pytest.mark.parametrize(("name", "value_set"), CASES)


@pytest.fixture(scope="module")
def loaded() -> dict[str, LoadedProblem]:
    return {name: LoadedProblem(LIBRARY.load(name)) for name in LIBRARY.names()}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors: a second thread would mostly wait for the first."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def model_of(problem: LoadedProblem) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return problem.reference_class(*problem.init_inputs())


def outputs_of(model: torch.nn.Module, inputs: list[Any]) -> list[torch.Tensor]:
    with torch.inference_mode():
        return list(values.tensors([model(*inputs)]))


def differ(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return not all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(left, right, strict=True))


@SHAPES
@EACH
def test_draws(loaded: dict[str, LoadedProblem], name: str, value_set: str, shapes: str):
    problem = loaded[name]
    first = problem.draw(1, shapes=shapes, value_set=value_set)
    again = problem.draw(1, shapes=shapes, value_set=value_set)
    other = problem.draw(2, shapes=shapes, value_set=value_set)
    assert first.dims == again.dims
    assert not differ(first.inputs, again.inputs)
    assert all(differ([a], [b]) for a, b in zip(first.inputs, other.inputs, strict=True))
    assert (first.dims != other.dims) == (shapes == "jitter")


@SHAPES
@EACH
def test_reference_is_finite_and_well_conditioned(
    loaded: dict[str, LoadedProblem], name: str, value_set: str, shapes: str
):
    """Single precision agrees with double: what is asked can be computed to about its rounding.

    Far from zero that is the rounding of a sum as large as the distance, which no way of computing escapes.
    """
    size = max(values.DISTANCE) if value_set == "distant" else 1
    problem = loaded[name]
    model = model_of(problem)
    inputs = problem.draw(3, shapes=shapes, value_set=value_set).inputs
    wide = [item.double() if item.is_floating_point() else item for item in inputs]
    for single, double in zip(outputs_of(model, inputs), outputs_of(model.double(), wide), strict=True):
        assert single.isfinite().all()
        if single.is_floating_point():
            row_rms = double.square().mean(dim=-1, keepdim=True).sqrt()
            assert ((single - double).abs() <= size * 2e-6 * row_rms + 1e-5 * double.abs()).all()
        else:
            assert torch.equal(single, double)


@SHAPES
@EACH
def test_every_input_and_parameter_matters(loaded: dict[str, LoadedProblem], name: str, value_set: str, shapes: str):
    problem = loaded[name]
    model = model_of(problem)
    inputs = problem.draw(4, shapes=shapes, value_set=value_set).inputs
    expected = outputs_of(model, inputs)
    for position, item in enumerate(inputs):
        # Rolling keeps the values, so that an index stays in its range.
        changed = [*inputs[:position], item.flatten().roll(1).reshape(item.shape), *inputs[position + 1 :]]
        assert differ(outputs_of(model, changed), expected), f"input {position}"
    for parameter_name, parameter in model.named_parameters():
        kept = parameter.detach().clone()
        with torch.no_grad():
            parameter.add_(torch.linspace(0.5, 1.0, parameter.numel()).reshape(parameter.shape))
        assert differ(outputs_of(model, inputs), expected), parameter_name
        with torch.no_grad():
            parameter.copy_(kept)


def test_the_spread_of_kinds(loaded: dict[str, LoadedProblem]):
    """Several outputs, inputs that are no floats, and weights whose default does nothing are all represented."""
    draws = {name: problem.draw(5).inputs for name, problem in loaded.items()}
    models = {name: model_of(problem) for name, problem in loaded.items()}
    assert any(len(outputs_of(models[name], draws[name])) > 1 for name in draws)
    dtypes = {tensor.dtype for inputs in draws.values() for tensor in inputs}
    assert {torch.bool, torch.int64, torch.float32} <= dtypes
    weights = [parameter for model in models.values() for parameter in model.parameters()]
    assert any((weight == 1).all() for weight in weights)
    assert any((weight == 0).all() for weight in weights)


def test_numbers_are_unique_in_their_level():
    numbers = [(problem.level, problem.number) for problem in map(LIBRARY.load, LIBRARY.names())]
    assert len(set(numbers)) == len(numbers)


def test_row_max_takes_the_first_of_equals(loaded: dict[str, LoadedProblem]):
    problem = loaded["level1/26_row_max_with_index"]
    x = problem.draw(6, value_set="integer").inputs[0]
    largest, columns = outputs_of(model_of(problem), [x])
    assert (x == largest[:, None]).sum() > len(x)
    assert columns.tolist() == x.numpy().argmax(axis=1).tolist()


def test_gather_fixes_ranks_and_features(loaded: dict[str, LoadedProblem]):
    problem = loaded["level2/47_virtual_all_gather_concat_linear"]
    with pytest.raises(AssertionError):
        model_of(problem)(torch.randn(3, 12, 32))

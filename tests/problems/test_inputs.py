"""Draws depend on the seed alone, disturb nothing, and a file's faults become one sentence."""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from problems.inputs import LoadedProblem
from problems.library import read_problem
from problems.problem import ProblemError

SOURCE = """
import random
import numpy as np
import torch
import torch.nn as nn

N = 6
M = 4
FREE_DIMS = {"N": (8, 64, 8)}
VALUE_SETS = ("nominal", "scaled")
calls = []

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, x, offset, noise):
        return x * offset + noise

def get_inputs():
    calls.append(1)
    assert len(calls) == 1
    return [torch.randn(N, M), random.random(), torch.from_numpy(np.random.rand(N, M))]

def get_init_inputs():
    return [M + random.random()]
"""


def load(tmp_path: Path, source: str = SOURCE) -> LoadedProblem:
    path = tmp_path / "mine.py"
    path.write_text(source)
    return LoadedProblem(read_problem(path))


def same(left: list, right: list) -> bool:
    pairs = zip(left, right, strict=True)
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs)


def test_a_draw_depends_on_its_seed_alone(tmp_path: Path):
    problem = load(tmp_path)
    first, second = problem.draw(7), problem.draw(8)
    assert same(first.inputs, problem.draw(7).inputs)
    assert same(first.inputs, load(tmp_path).draw(7).inputs)
    assert not any(same([a], [b]) for a, b in zip(first.inputs, second.inputs, strict=True))
    assert problem.init_inputs() == problem.init_inputs() == load(tmp_path).init_inputs()


def test_seeds_of_63_bits_differ(tmp_path: Path):
    problem = load(tmp_path)
    assert not same(problem.draw(5).inputs[:1], problem.draw(5 + 2**40).inputs[:1])
    problem.draw(2**63 - 1)


def test_fixed_and_jittered_sizes(tmp_path: Path):
    problem = load(tmp_path)
    fixed = problem.draw(1)
    assert (fixed.dims, fixed.inputs[0].shape) == ({"N": 6}, (6, 4))
    drawn = set()
    for seed in range(40):
        draw = problem.draw(seed, shapes="jitter")
        assert draw.inputs[0].shape == (draw.dims["N"], 4) == draw.inputs[2].shape
        drawn.add(draw.dims["N"])
    assert drawn == {8, 16, 24, 32, 40, 48, 56, 64}
    assert problem.draw(1).dims == {"N": 6}
    assert problem.draw(3, shapes="jitter").dims == problem.draw(3, shapes="jitter").dims


def test_value_sets_keep_sizes_and_use_the_same_draw(tmp_path: Path):
    problem = load(tmp_path)
    nominal, scaled = problem.draw(4, shapes="jitter"), problem.draw(4, shapes="jitter", value_set="scaled")
    assert nominal.dims == scaled.dims
    factor = (scaled.inputs[0] / nominal.inputs[0]).flatten()[0]
    torch.testing.assert_close(scaled.inputs[0], nominal.inputs[0] * factor)
    assert scaled.inputs[1] == nominal.inputs[1]


def test_the_callers_generators_are_untouched(tmp_path: Path):
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)
    expected = random.random(), np.random.rand(), torch.rand(()).item()
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)
    problem = load(tmp_path, SOURCE.replace("calls = []", "calls = []\nZ = torch.rand(()), random.random()"))
    problem.init_inputs()
    problem.draw(9, shapes="jitter", value_set="scaled")
    assert (random.random(), np.random.rand(), torch.rand(()).item()) == expected


def test_concurrent_draws_equal_serial_ones(tmp_path: Path):
    problem = load(tmp_path)
    seeds = range(24)
    serial = [problem.draw(seed, shapes="jitter") for seed in seeds]
    with ThreadPoolExecutor(4) as pool:
        parallel = list(pool.map(lambda seed: problem.draw(seed, shapes="jitter"), seeds))
    assert all(a.dims == b.dims and same(a.inputs, b.inputs) for a, b in zip(serial, parallel, strict=True))


def test_unknown_shapes_and_uncovered_value_sets(tmp_path: Path):
    problem = load(tmp_path)
    with pytest.raises(ValueError, match="unknown shapes 'random'; choose one of fixed, jitter"):
        problem.draw(1, shapes="random")
    with pytest.raises(ProblemError, match="does not cover value set 'sparse'; its VALUE_SETS are nominal, scaled"):
        problem.draw(1, value_set="sparse")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("import torch.nn as nn", "import absent_module\nimport torch.nn as nn", "the file raised ModuleNotFoundError"),
        ("calls = []", "raise SystemExit('stop')", "the file raised SystemExit in line 11: stop"),
        ("class Model(nn.Module):", "class Model:", "Model must be a subclass of torch.nn.Module"),
        ("N = 6\n", "N = 6.0\n", "FREE_DIMS names N, which is no module-level int"),
        ("N = 6\n", "", "FREE_DIMS names N, which is no module-level int"),
        (
            "torch.randn(N, M)",
            "torch.randn(p(N), M)",
            r"get_inputs\(\) raised NameError in line 24: name 'p' is",
        ),
        ("return [M + random.random()]", "return M", r"get_init_inputs\(\) must return a list, not a int"),
        ("return [M + random.random()]", "return [0 / 0]", r"get_init_inputs\(\) raised ZeroDivisionError in line 27"),
    ],
)
def test_faults_of_the_file(tmp_path: Path, old: str, new: str, message: str):
    assert old in SOURCE
    with pytest.raises(ProblemError, match=f"^problem mine: {message}"):
        problem = load(tmp_path, SOURCE.replace(old, new))
        problem.init_inputs()
        problem.draw(1)


def test_inputs_must_be_a_list(tmp_path: Path):
    problem = load(tmp_path, SOURCE.replace("return [torch.randn(N, M)", "return 1, [torch.randn(N, M)"))
    with pytest.raises(ProblemError, match=r"get_inputs\(\) must return a list, not a tuple"):
        problem.draw(1)


def test_a_file_is_compiled_by_its_own_rules(tmp_path: Path):
    """This package's `from __future__ import annotations` is not the file's."""
    problem = load(tmp_path, SOURCE.replace("x, offset", "x: torch.Tensor, offset"))
    assert problem.reference_class.forward.__annotations__ == {"x": torch.Tensor}


def test_jitter_needs_free_dims(tmp_path: Path):
    problem = load(tmp_path, SOURCE.replace("FREE_DIMS", "OTHER"))
    with pytest.raises(ProblemError, match="declares no FREE_DIMS, so its sizes cannot be jittered; use shapes=fixed"):
        problem.draw(1, shapes="jitter")
    assert problem.draw(1).dims == {}


def test_a_free_dim_must_reach_the_inputs(tmp_path: Path):
    """`K` is a size that get_inputs never reads; `ROWS = N` was computed before N was drawn."""
    unread = SOURCE.replace('"N": (8, 64, 8)', '"N": (8, 64, 8), "K": (1, 3)') + "\nK = 2\n"
    with pytest.raises(
        ProblemError, match=r"FREE_DIMS names K, but get_inputs\(\) gives the same shapes whatever K is"
    ):
        load(tmp_path, unread).draw(1, shapes="jitter")
    copied = (
        SOURCE.replace("M = 4", "M = 4\nROWS = N")
        .replace("randn(N, M)", "randn(ROWS, M)")
        .replace("rand(N", "rand(ROWS")
    )
    with pytest.raises(ProblemError, match="FREE_DIMS names N, but"):
        load(tmp_path, copied).draw(1, shapes="jitter")


def test_calls_of_one_block_differ_and_depend_on_the_seed_alone(tmp_path: Path):
    problem = load(tmp_path, SOURCE.replace("    calls.append(1)\n    assert len(calls) == 1\n", ""))
    block = problem.calls(7, 3)
    assert all(same(*both) for both in zip(block, problem.calls(7, 3), strict=True))
    assert not same(block[0], block[1]) and not same(block[0], problem.calls(8, 1)[0])
    assert [inputs[0].shape for inputs in block] == [(6, 4)] * 3


NEST = "[torch.randn(N, M), {'a': (torch.arange(N), 3)}]"
ON_THE_CPU = {
    "own generator": "torch.randn(N, M, generator=torch.Generator().manual_seed(3))",
    "numpy": "torch.from_numpy(np.random.rand(N, M)) + torch.zeros(N, M)",
}


@pytest.mark.parametrize("made", [None, *ON_THE_CPU])
def test_inputs_are_on_the_device_whatever_the_file_does(tmp_path: Path, made: str | None):
    """Torch's meta device stands for an accelerator: it refuses other devices' tensors and generators like one."""
    source = SOURCE.replace("    calls.append(1)\n    assert len(calls) == 1\n", "")
    returned = NEST if made is None else NEST.replace("torch.randn(N, M)", f"x := {ON_THE_CPU[made]}, x")
    a = source.index("    return [torch.randn(N, M)")
    source = source[:a] + f"    return {returned}\n" + source[source.index("\ndef get_init_inputs") :]
    path = tmp_path / "mine.py"
    path.write_text(source)
    loaded = LoadedProblem(read_problem(path), "meta")
    draw = loaded.draw(1, shapes="jitter")
    for inputs in (draw.inputs, *loaded.calls(1, 2)):
        *first, nest = inputs
        assert {tensor.device.type for tensor in (*first, nest["a"][0])} == {"meta"}
        assert len({id(tensor) for tensor in first}) == 1 and nest["a"][1] == 3
    assert draw.inputs[0].shape == (draw.dims["N"], 4)
    assert isinstance(loaded.init_inputs()[0], float)

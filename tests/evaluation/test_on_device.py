"""Inputs, oracle and comparison where all tensors are on a GPU. Needs torch, numpy, pytest and yaml alone."""

import contextlib
import gc
import math
import random

import numpy as np
import pytest
import torch

from evaluation.correctness import compare as compare_module
from evaluation.correctness.admission import admission
from evaluation.correctness.compare import CHUNK_ELEMENTS, compare
from evaluation.correctness.kernelbench import kernelbench_verdict
from evaluation.correctness.nested import map_tensors, tensors
from evaluation.correctness.oracle import Oracle
from evaluation.correctness.stochastic import REPEATS, judge_samples, law_of
from evaluation.correctness.tolerance import UNKNOWN_TERMS
from evaluation.correctness.trials import Trials
from evaluation.serialize import to_plain
from evaluation.settings import EvaluationSettings
from evaluation.verdict import Status
from problems.inputs import LoadedProblem
from problems.library import Library, read_problem
from problems.problem import Stochastic

pytestmark = pytest.mark.gpu
DEVICE = "cuda"
PROBLEMS = ("24", "25", "26", "27", "48", "49")


def load(tmp_path, forward="x", inputs="[torch.randn(60, 4)]", init="pass"):
    path = tmp_path / "1_made_up.py"
    path.write_text(
        "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n        {init}\n\n"
        f"    def forward(self, x):\n        return {forward}\n\n\n"
        f"def get_inputs():\n    return {inputs}\n\n\ndef get_init_inputs():\n    return []\n"
    )
    return LoadedProblem(read_problem(path), DEVICE)


def there(nest):
    return map_tensors(lambda tensor: tensor.to(DEVICE), nest)


def same(left, right):
    return all(torch.equal(*pair) for pair in zip(tensors(left), tensors(right), strict=True))


def devices(nest):
    return {tensor.device.type for tensor in tensors(nest)}


@contextlib.contextmanager
def memory_for(more_bytes):
    """No more than this beside what is allocated."""
    gc.collect()
    torch.cuda.empty_cache()
    allowed = torch.cuda.memory_allocated() + more_bytes
    torch.cuda.set_per_process_memory_fraction(allowed / torch.cuda.get_device_properties(0).total_memory)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()


@contextlib.contextmanager
def grown_by_at_most(most_bytes):
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    yield
    assert torch.cuda.max_memory_allocated() - before <= most_bytes


def test_generators_are_given_back(tmp_path):
    def numbers():
        return random.random(), np.random.rand(), float(torch.rand(())), float(torch.rand((), device=DEVICE))

    def seed():
        random.seed(3)
        np.random.seed(3)
        torch.manual_seed(3)

    seed()
    expected = numbers()
    seed()
    loaded = load(tmp_path, init="self.noise = nn.Parameter(torch.rand(4, device='cuda'))")
    loaded.draw(4)
    loaded.calls(4, 2)
    oracle = Oracle(loaded, 5, "fp32")
    oracle.yardstick(loaded.draw(4).inputs, oracle.oracle(loaded.draw(4).inputs))
    assert numbers() == expected


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_oracle_agrees_with_the_cpus(name, precision):
    problem = Library().load(name)
    near, far = (Oracle(LoadedProblem(problem, device), 3, precision) for device in ("cpu", DEVICE))
    assert near.given == far.given and same(list(near.state.values()), list(far.state.values()))
    assert devices(list(far.state.values())) <= {"cpu"}
    for seed, case in enumerate(problem.cases):
        inputs = LoadedProblem(problem).draw(seed, value_set=case).inputs
        exact, native = far.oracle(inputs), far.native(inputs)
        assert devices([exact, native, far.at_precision(inputs)]) == {DEVICE}
        expected = near.oracle(inputs)
        for mine, theirs in zip(tensors(exact), tensors(expected), strict=True):
            assert mine.dtype == theirs.dtype
            torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-9, atol=1e-12 * float(theirs.abs().max()))
        yardstick, other = far.yardstick(inputs, exact), near.yardstick(inputs, expected)
        assert other.terms / 4 <= yardstick.terms <= other.terms * 4
        for mine, theirs in zip(tensors(yardstick.condition), tensors(other.condition), strict=True):
            assert mine.shape == theirs.shape
            if case == "nominal" and theirs.any() and theirs.numel() >= 32:
                assert 0.3 < float(mine.norm()) / float(theirs.norm()) < 3
        assert compare(native, far.native(inputs), exact, precision, yardstick).passed
        home = map_tensors(lambda tensor: tensor.cpu(), native)
        result = compare(home, near.native(inputs), expected, precision, other)
        assert result.passed, result.message


def answers(dtype, shape=(40, 33)):
    """Native and oracle of one output, and candidates of which some are wrong."""
    exact = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) * 20
    if dtype.is_floating_point:
        exact[2] *= 1e-6
        exact[3, 4] = math.inf
        exact[3, 5] = math.nan
    else:
        exact = exact.round()
    native = exact.to(dtype)
    exact = exact if dtype.is_floating_point else native.clone()
    yield native, exact, native.clone()
    for index in ((0, 0), (17, 31), (39, 32), (3, 4)):
        wrong = native.clone()
        wrong[index] = 3 - wrong[index].double() if dtype is not torch.bool else ~wrong[index]
        yield native, exact, wrong
    yield native, exact, torch.zeros_like(native)
    yield native, exact, native.T.contiguous().T
    if dtype.is_floating_point:
        yield native, exact, (native.double() * (1 + 20 * torch.finfo(dtype).eps)).to(dtype)
        yield native, exact, native.nan_to_num()


DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool]


@pytest.mark.parametrize("chunk", [None, 300])
@pytest.mark.parametrize("dtype", DTYPES)
def test_compare_says_what_it_says_on_the_cpu(monkeypatch, dtype, chunk):
    precision = {torch.float64: "fp64", torch.float16: "fp16", torch.bfloat16: "bf16"}.get(dtype, "fp32")
    if chunk is not None:
        monkeypatch.setitem(compare_module.CHUNK_ELEMENTS, DEVICE, chunk)
    verdicts = set()
    for native, exact, candidate in answers(dtype):
        for wrap in (lambda x: x, lambda x: (x, [x, 3]), lambda x: {"a": x, "b": 0.5}):
            nests = [wrap(part) for part in (candidate, native, exact)]
            home, far = compare(*nests, precision), compare(*map(there, nests), precision)
            assert (far.status, far.message) == (home.status, home.message)
            for figure, value in to_plain(home.figures).items():
                assert to_plain(far.figures)[figure] == pytest.approx(value, rel=1e-9, abs=1e-300)
            verdicts.add(home.status)
        kernelbench = [
            kernelbench_verdict(*pair, precision) for pair in ((candidate, native), there((candidate, native)))
        ]
        assert kernelbench[0] is kernelbench[1]
    assert verdicts == {Status.PASSED, Status.INCORRECT_VALUES}


def test_an_answer_on_the_cpu_has_the_wrong_structure():
    native = torch.ones(3, device=DEVICE)
    result = compare((native, native.cpu()), (native, native), (native, native), "fp32")
    assert result.status is Status.INCORRECT_STRUCTURE
    assert result.message == "output[1] is on the device cpu; the reference's is on cuda"
    assert kernelbench_verdict(native.cpu(), native, "fp32") is False


def test_little_memory_beside_the_tensors():
    native = torch.rand(2**14, 2**14, device=DEVICE)
    exact = native.double()
    with grown_by_at_most(20 * 8 * CHUNK_ELEMENTS[DEVICE]):
        assert compare(native, native, exact, "fp32").passed


def test_where_float64_does_not_fit_the_oracle_is_float32(tmp_path):
    loaded = load(tmp_path, "x.sum(-1)", "[torch.randn(2**14, 2**12)]")
    inputs = loaded.draw(1).inputs
    size = inputs[0].nbytes
    oracle = Oracle(loaded, 2, "fp32")
    with memory_for(4 * size):
        exact = oracle.oracle(inputs)
        assert exact.dtype is torch.float64
    with memory_for(2.5 * size):
        yardstick = oracle.yardstick(inputs, exact)
    assert (yardstick.terms, yardstick.condition) == (UNKNOWN_TERMS, None)
    with memory_for(1.5 * size):
        assert oracle.oracle(inputs).dtype is torch.float32
    assert oracle.yardstick(inputs, exact).condition is None
    fresh = Oracle(loaded, 2, "fp32")
    with memory_for(0.5 * size), pytest.raises(torch.OutOfMemoryError):
        fresh.native(inputs)
    assert compare(oracle.native(inputs), oracle.native(inputs), exact, "fp32").passed


WAYS = {
    "legacy": lambda: [setattr(torch.backends.cuda.matmul, "allow_tf32", True)],
    "precision": lambda: torch.set_float32_matmul_precision("high"),
    "new": lambda: [
        setattr(part, "fp32_precision", "tf32")
        for part in (torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn)
    ],
    "all": lambda: setattr(torch.backends, "fp32_precision", "tf32"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layer", ["nn.Linear(512, 512)", "nn.Conv2d(64, 64, 3)", "nn.GRU(512, 512)"])
def test_the_reference_runs_without_tf32(tmp_path, way, layer):
    shape = "(64, 64, 32, 32)" if "Conv" in layer else "(64, 512)"
    call = "self.layer(x)[0]" if "GRU" in layer else "self.layer(x)"
    loaded = load(tmp_path, call, f"[torch.randn({shape})]", init=f"self.layer = {layer}")
    oracle = Oracle(loaded, 1, "fp32")
    inputs = loaded.draw(1).inputs
    before = (torch.backends.fp32_precision, torch.get_float32_matmul_precision())
    try:
        WAYS[way]()
        exact, native = oracle.oracle(inputs), oracle.native(inputs)
    finally:
        torch.backends.fp32_precision = before[0]
        torch.set_float32_matmul_precision(before[1])
        torch.backends.cudnn.allow_tf32 = True
    error = (native - exact).norm() / exact.norm()
    assert exact.dtype is torch.float64 and float(error) < 1e-5


def test_random_references_are_judged(tmp_path):
    loaded = load(tmp_path, "self.drop(x)", "[torch.randn(64, 50)]", init="self.drop = nn.Dropout(0.3)")
    oracle, inputs = Oracle(loaded, 1, "fp32"), loaded.draw(1).inputs
    law = law_of(oracle, inputs, Stochastic(rule="mask", drop=0.3))
    outputs = [oracle.native(inputs) for _ in range(REPEATS)]
    assert judge_samples(outputs, law, "fp32").passed
    assert not judge_samples(outputs[:1] * REPEATS, law, "fp32").passed
    assert not judge_samples([inputs[0]] * REPEATS, law, "fp32").passed
    at_home = judge_samples([output.cpu() for output in outputs], law, "fp32")
    assert at_home.status is Status.INCORRECT_STRUCTURE


@pytest.mark.parametrize("name", ["24", "26"])
def test_no_trivial_answer_passes(name):
    assert admission(LoadedProblem(Library().load(name), DEVICE)) == []


@pytest.mark.parametrize("name", ["24", "49"])
def test_a_whole_evaluations_draws_and_timed_calls(name):
    loaded = LoadedProblem(Library().load(name), DEVICE)
    oracle = Oracle(loaded, 4, "fp32")
    trials = Trials(loaded, oracle, EvaluationSettings())
    assert not trials.reference_changes_inputs()
    for plan in trials.plans:
        trial = trials.trial(plan)
        assert trials.judge(trial, [oracle.native(trial.inputs)]).passed
    batch = trials.timed_inputs(3)
    assert devices(batch) == {DEVICE}
    right = [oracle.native(inputs) for inputs in batch]
    assert trials.judge_timed(batch, right, right) is None
    wrong = [*right[:2], map_tensors(lambda tensor: tensor + 1, right[2])]
    assert trials.judge_timed(batch, right, wrong).status is Status.INCORRECT_VALUES

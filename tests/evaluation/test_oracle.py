import pytest
import torch

from evaluation.correctness.oracle import Oracle
from evaluation.correctness.tolerance import UNKNOWN_TERMS
from problems.inputs import LoadedProblem
from problems.library import read_problem
from problems.problem import ProblemError

NORM = """
def __init__(self):
    super().__init__()
    self.norm = nn.BatchNorm1d(6)
    self.layer = nn.Linear(6, 5)
    self.gain = nn.Parameter(torch.tensor(2.0))
    self.mix = nn.Parameter(torch.eye(5))
    self.register_buffer("mask", torch.ones(5))

def forward(self, x):
    return self.gain * (self.layer(self.norm(x)) @ self.mix) * self.mask
"""


def load(tmp_path, body, inputs="[torch.randn(7, 6)]"):
    path = tmp_path / "1_made_up.py"
    path.write_text(
        "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n"
        + "".join(f"    {line}\n" for line in body.strip().splitlines())
        + f"\n\ndef get_inputs():\n    return {inputs}\n\n\ndef get_init_inputs():\n    return []\n"
    )
    return LoadedProblem(read_problem(path))


def test_no_weight_stays_at_a_trivial_default(tmp_path):
    state = Oracle(load(tmp_path, NORM), 1, "fp32").state
    for name, trivial in (("norm.weight", 1), ("norm.bias", 0), ("norm.running_mean", 0), ("norm.running_var", 1)):
        assert not torch.isclose(state[name], torch.tensor(float(trivial)), atol=1e-6).any()
        assert state[name].abs().max() <= 1.5
    assert (state["norm.running_var"] >= 0.5).all()
    assert state["gain"] != 2.0 and 1.0 <= state["gain"] <= 3.0
    assert (state["mix"] != 0).all()
    assert torch.equal(state["mask"], torch.ones(5))
    assert state["norm.num_batches_tracked"] == 0


def test_weights_follow_from_the_seed_alone(tmp_path):
    loaded = load(tmp_path, NORM)
    torch.manual_seed(11)
    before = torch.get_rng_state()
    one, same, other = (Oracle(loaded, seed, "fp32").state for seed in (5, 5, 6))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["layer.weight"], other["layer.weight"])
    kept = Oracle(loaded, 5, "fp32", randomise=False).state
    assert torch.equal(kept["norm.weight"], torch.ones(6))
    assert torch.equal(kept["layer.weight"], one["layer.weight"])


def test_answers_do_not_depend_on_earlier_calls(tmp_path):
    oracle = Oracle(load(tmp_path, NORM), 2, "fp32")
    inputs = [torch.randn(7, 6)]
    state, native, exact = oracle.state, oracle.native(inputs), oracle.oracle(inputs)
    oracle.yardstick(inputs, exact)
    oracle.native([torch.randn(7, 6) + 100])
    assert torch.equal(oracle.native(inputs), native)
    assert torch.equal(oracle.oracle(inputs), exact)
    assert all(torch.equal(value, state[name]) for name, value in oracle.state.items())
    assert exact.dtype is torch.float64 and native.dtype is torch.float32
    assert 0 < (exact - native).abs().max() < 1e-5


def test_half_precision_rounds_inputs_and_weights_before_the_oracle(tmp_path):
    loaded = load(tmp_path, "def forward(self, x):\n    return x")
    oracle = Oracle(loaded, 2, "bf16")
    x = torch.randn(7, 6)
    assert torch.equal(oracle.oracle([x]), x.bfloat16().double())
    assert oracle.at_precision([x, 3])[0].dtype is torch.bfloat16
    assert Oracle(load(tmp_path, NORM), 2, "fp16").state["layer.weight"].dtype is torch.float16


def test_an_operator_without_float64_gives_a_float32_oracle(tmp_path):
    loaded = load(tmp_path, "def forward(self, x):\n    return x @ torch.eye(6, dtype=torch.float32)")
    oracle = Oracle(loaded, 2, "fp32")
    inputs = [torch.randn(7, 6)]
    exact = oracle.oracle(inputs)
    assert exact.dtype is torch.float32 and oracle.oracle_dtype is torch.float32
    assert oracle.yardstick(inputs, exact).condition is None


def test_tensors_made_in_forward_are_as_wide_as_the_oracle(tmp_path):
    loaded = load(tmp_path, "def forward(self, x):\n    return x @ torch.eye(6)")
    oracle = Oracle(loaded, 2, "fp32")
    oracle.oracle([torch.randn(7, 6)])
    assert oracle.oracle_dtype is torch.float64 and torch.get_default_dtype() is torch.float32


def test_inputs_that_the_reference_changes_are_known_and_ours_are_left_alone(tmp_path):
    loaded = load(
        tmp_path, "def forward(self, x, y):\n    y.add_(1)\n    return x + y", "[torch.ones(3), torch.zeros(3)]"
    )
    oracle = Oracle(loaded, 2, "fp32")
    inputs = loaded.draw(1).inputs
    assert oracle.mutates_inputs(inputs) == {1}
    exact = oracle.oracle(inputs)
    oracle.native(inputs)
    assert oracle.yardstick(inputs, exact).terms == 1
    assert torch.equal(inputs[1], torch.zeros(3))


@pytest.mark.parametrize(
    "body, inputs, terms",
    [
        ("def forward(self, x):\n    return x.mean(0)", "[torch.randn(7, 6)]", 7),
        ("def forward(self, a, b):\n    return a @ b", "[torch.randn(3, 50), torch.randn(50, 4)]", 50),
        ("def forward(self, x):\n    return torch.relu(x) + 1", "[torch.rand(7, 6)]", 1),
        ("def forward(self, x):\n    return x.sum()", "[torch.full((30,), 0.1)]", 900),
        ("def forward(self, x):\n    return x.argmax(-1)", "[torch.randn(7, 6)]", UNKNOWN_TERMS),
    ],
)
def test_terms_count_what_is_added_up(tmp_path, body, inputs, terms):
    loaded = load(tmp_path, body, inputs)
    oracle = Oracle(loaded, 2, "fp32")
    drawn = loaded.draw(1).inputs
    assert oracle.yardstick(drawn, oracle.oracle(drawn)).terms == terms


def test_condition_is_the_loss_of_digits_by_cancellation(tmp_path):
    loaded = load(
        tmp_path, "def forward(self, x):\n    return x - x.mean(-1, keepdim=True)", "[torch.randn(9, 400) + 1000]"
    )
    oracle = Oracle(loaded, 2, "fp32")
    inputs = loaded.draw(1).inputs
    condition = oracle.yardstick(inputs, oracle.oracle(inputs)).condition
    assert condition.square().mean().sqrt() == pytest.approx(1000, rel=0.05)


def test_a_reference_that_fails_is_the_problems_fault(tmp_path):
    broken = load(tmp_path, "def forward(self, x):\n    return x @ x")
    with pytest.raises(ProblemError, match=r"reference's forward\(\) raised RuntimeError"):
        Oracle(broken, 2, "fp32").oracle([torch.randn(7, 6)])
    with pytest.raises(ProblemError, match="constructor raised ZeroDivisionError"):
        Oracle(load(tmp_path, "def __init__(self):\n    1 / 0"), 2, "fp32")


def test_complex_numbers_are_as_wide_as_the_oracle_and_have_a_condition_in_both_parts(tmp_path):
    body = "def forward(self, x, y):\n    return x * y + 100 - 100"
    loaded = load(tmp_path, body, "[torch.randn(5, 6, dtype=torch.complex64), torch.randn(5, 6)]")
    oracle = Oracle(loaded, 2, "fp32")
    inputs = loaded.draw(1).inputs
    exact = oracle.oracle(inputs)
    condition = oracle.yardstick(inputs, exact).condition
    assert exact.dtype is torch.complex128 and condition.dtype is torch.complex128
    assert (condition.real > 0).all() and (condition.imag > 0).all()

"""No TF32 around the reference, whichever of torch's interfaces switched it on; afterwards all is as before."""

import pytest
import torch

from evaluation.correctness.surroundings import strict_fp32


def parts():
    return torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn


def new_interface():
    for part in parts():
        part.fp32_precision = "tf32"


WAYS = {
    "as torch starts": lambda: None,
    "matmul": lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True),
    "cudnn off": lambda: setattr(torch.backends.cudnn, "allow_tf32", False),
    "precision": lambda: torch.set_float32_matmul_precision("high"),
    "new": new_interface,
    "all": lambda: setattr(torch.backends, "fp32_precision", "tf32"),
}


@pytest.fixture
def _reset():
    yield
    torch.backends.fp32_precision = "none"
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = True


@pytest.mark.usefixtures("_reset")
@pytest.mark.parametrize("way", WAYS)
def test_tf32_is_off_inside_and_as_it_was_outside(way):
    WAYS[way]()
    before = [part.fp32_precision for part in parts()]
    with strict_fp32():
        assert [part.fp32_precision for part in parts()] == ["ieee"] * 3
        # Where the two interfaces disagree, reading this raises, and so do operators.
        assert not torch.backends.cuda.matmul.allow_tf32
        assert not torch.backends.cudnn.allow_tf32
    assert [part.fp32_precision for part in parts()] == before
    assert torch.backends.cuda.matmul.allow_tf32 == (before[0] == "tf32")

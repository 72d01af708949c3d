import torch
import torch.nn as nn

ROWS = 256
INPUTS = 512
OUTPUTS = 384

FREE_DIMS = {"ROWS": (64, 384, 64)}
VALUE_SETS = ("nominal", "scaled", "heavy_tailed", "integer")


class Model(nn.Module):
    """(ROWS, inputs) -> (ROWS, outputs)."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.randn(ROWS, INPUTS)]


def get_init_inputs():
    return [INPUTS, OUTPUTS]

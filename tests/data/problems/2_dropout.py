"""Dropout of a rectified affine map."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 96
WIDTH = 128

VALUE_SETS = ("nominal", "scaled")
STOCHASTIC = {"rule": "mask", "drop": 0.3}


class Model(nn.Module):
    """(ROWS, WIDTH) -> (ROWS, WIDTH); kept elements are divided by the chance to be kept."""

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(torch.relu(x * self.scale), p=0.3, training=True)


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH]

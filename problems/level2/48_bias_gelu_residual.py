"""Bias, exact GELU and a residual: the pointwise tail of a transformer's feed-forward block."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 256
WIDTH = 1024

# The bias has WIDTH elements: only the number of rows is open.
FREE_DIMS = {"ROWS": (32, 512, 1)}
VALUE_SETS = ("nominal", "scaled", "shifted", "heavy_tailed", "sparse", "integer")


class Model(nn.Module):
    """x (ROWS, width) and residual (ROWS, width) -> (ROWS, width)."""

    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return residual + F.gelu(x + self.bias)


def get_inputs():
    return [torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH]

"""Add a residual, then layer normalisation with its scale and offset."""

import torch
import torch.nn as nn

ROWS = 256
WIDTH = 1024
EPSILON = 1e-5

# Scale and offset have WIDTH elements: only the number of rows is open.
FREE_DIMS = {"ROWS": (32, 512, 1)}
VALUE_SETS = ("nominal", "scaled", "shifted", "distant", "heavy_tailed", "sparse", "integer")


class Model(nn.Module):
    """x (ROWS, width) and residual (ROWS, width) -> (ROWS, width)."""

    def __init__(self, width, epsilon):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=epsilon)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return self.norm(x + residual)


def get_inputs():
    return [torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH, EPSILON]

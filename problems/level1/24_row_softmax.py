"""Softmax over each row of a matrix."""

import torch
import torch.nn as nn

ROWS = 64
COLUMNS = 4096

FREE_DIMS = {"ROWS": (32, 512, 1), "COLUMNS": (256, 6144, 8)}
VALUE_SETS = ("nominal", "scaled", "shifted", "heavy_tailed", "sparse", "integer")


class Model(nn.Module):
    """(ROWS, COLUMNS) -> (ROWS, COLUMNS): positive, and every row adds up to 1."""

    def __init__(self):
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []

"""The largest element of each row, and the column where it stands first."""

import torch
import torch.nn as nn

ROWS = 512
COLUMNS = 1024

FREE_DIMS = {"ROWS": (32, 768, 1), "COLUMNS": (64, 1536, 1)}
VALUE_SETS = ("nominal", "scaled", "shifted", "heavy_tailed", "sparse", "integer")


class Model(nn.Module):
    """(ROWS, COLUMNS) -> values (ROWS,) and columns (ROWS,), int64; among equals the lowest column counts."""

    def __init__(self):
        super().__init__()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, columns = x.max(dim=1)
        return values, columns


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []

import torch
import torch.nn as nn

ROWS = 32
COLUMNS = 200

FREE_DIMS = {"ROWS": (16, 64, 1)}
VALUE_SETS = ("nominal", "scaled", "heavy_tailed")


class Model(nn.Module):
    """Softmax over the kept columns; a row that keeps none is NaN."""

    def forward(self, x, keep):
        return torch.softmax(x.masked_fill(~keep, float("-inf")), dim=-1)


def get_inputs():
    keep = torch.rand(ROWS, COLUMNS) < 0.6
    keep[0] = False
    return [torch.randn(ROWS, COLUMNS), keep]


def get_init_inputs():
    return []

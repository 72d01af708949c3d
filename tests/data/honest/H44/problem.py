import torch
import torch.nn as nn

ROWS = 128
WIDTH = 256

VALUE_SETS = ("nominal", "scaled", "heavy_tailed")


class Model(nn.Module):
    """A product with a diagonal matrix, written as if it were full."""

    def __init__(self, width):
        super().__init__()
        self.diagonal = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return x @ torch.diag(self.diagonal)


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH]

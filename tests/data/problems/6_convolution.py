import torch
import torch.nn as nn

BATCH = 4
SIZE = 24

FREE_DIMS = {"BATCH": (2, 8, 1)}
VALUE_SETS = ("nominal", "scaled", "sparse")


class Model(nn.Module):
    """(BATCH, 8, SIZE, SIZE) -> (BATCH, 16, SIZE, SIZE)."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 16, 3, padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, 8, SIZE, SIZE)]


def get_init_inputs():
    return []

"""All-reduce by averaging, without a process group.

The R ranks live side by side in dimension 0 of one tensor; every rank would end up with the same average, which is
returned once.
"""

import torch
import torch.nn as nn

R = 4
B = 16
D = 48

FREE_DIMS = {"R": (2, 8, 1), "B": (4, 32, 1), "D": (16, 96, 8)}
VALUE_SETS = ("nominal", "scaled", "shifted", "heavy_tailed", "sparse", "integer")


class Model(nn.Module):
    """(R, B, D) -> (B, D): the average over the ranks."""

    def __init__(self):
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(dim=0)


def get_inputs():
    return [torch.randn(R, B, D)]


def get_init_inputs():
    return []

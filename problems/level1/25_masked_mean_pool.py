"""Average over the valid positions of each sequence."""

import torch
import torch.nn as nn

BATCH = 16
LENGTH = 256
WIDTH = 128

FREE_DIMS = {"BATCH": (4, 24, 1), "LENGTH": (32, 384, 1), "WIDTH": (32, 192, 8)}
VALUE_SETS = ("nominal", "scaled", "shifted", "heavy_tailed", "sparse", "integer")


class Model(nn.Module):
    """x (BATCH, LENGTH, WIDTH) and valid (BATCH, LENGTH), bool -> (BATCH, WIDTH).

    At least one position of every sequence is valid.
    """

    def __init__(self):
        super().__init__()

    def forward(self, x: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        weights = valid.unsqueeze(-1).to(x.dtype)
        return (x * weights).sum(dim=1) / weights.sum(dim=1)


def get_inputs():
    valid = torch.rand(BATCH, LENGTH) < 0.7
    valid[:, 0] = True
    return [torch.randn(BATCH, LENGTH, WIDTH), valid]


def get_init_inputs():
    return []

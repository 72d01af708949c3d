"""Cross entropy of each row of logits against a class index, without averaging over the rows."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 256
CLASSES = 2000

FREE_DIMS = {"ROWS": (32, 384, 1), "CLASSES": (100, 3000, 1)}
VALUE_SETS = ("nominal", "scaled", "shifted", "heavy_tailed", "sparse", "integer")


class Model(nn.Module):
    """logits (ROWS, CLASSES) and targets (ROWS,), int64 in [0, CLASSES) -> losses (ROWS,)."""

    def __init__(self):
        super().__init__()

    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, targets, reduction="none")


def get_inputs():
    return [torch.randn(ROWS, CLASSES), torch.randint(0, CLASSES, (ROWS,))]


def get_init_inputs():
    return []

"""All-gather followed by a linear layer, without a process group.

Each of the R ranks holds H features of the same B rows. Gathering lines the ranks' features up next to each other, so
that the layer sees R * H features a row.
"""

import torch
import torch.nn as nn

R = 4
B = 12
H = 32
K = 56

# The layer's weight has R * H columns: only the number of rows is open.
FREE_DIMS = {"B": (4, 32, 1)}
VALUE_SETS = ("nominal", "scaled", "shifted", "heavy_tailed", "sparse", "integer")


class Model(nn.Module):
    """(R, B, H) -> (B, K)."""

    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(R * H, K, bias=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ranks, _, features = x.shape
        assert ranks == R and features == H
        gathered = torch.cat(list(x.unbind(0)), dim=-1)
        return self.proj(gathered)


def get_inputs():
    return [torch.randn(R, B, H)]


def get_init_inputs():
    return []

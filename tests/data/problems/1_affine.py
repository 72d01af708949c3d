import torch
import torch.nn as nn

ROWS = 48
FEATURES = 32

FREE_DIMS = {"ROWS": (16, 64, 1)}
VALUE_SETS = ("nominal", "scaled")


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return self.norm(self.linear(x))


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES]

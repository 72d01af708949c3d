"""Honest: the same operators under other names, so that weights are matched by seed."""

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.first = nn.Linear(features, features)
        self.second = nn.LayerNorm(features)

    def forward(self, x):
        return self.second(self.first(x))

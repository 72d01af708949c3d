"""Honest: writes every result to the same tensor."""

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        if getattr(self, "out", None) is None or self.out.shape != x.shape:
            self.out = x.clone()
        self.out.copy_(self.norm(self.linear(x)))
        return self.out

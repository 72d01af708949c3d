"""Prints a gigabyte."""

import os

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        for _ in range(1024):
            os.write(1, b"x" * 2**20)
        return self.norm(self.linear(x))

"""Sends itself SIGKILL."""

import os
import signal

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        os.kill(os.getpid(), signal.SIGKILL)

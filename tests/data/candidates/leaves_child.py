"""Honest, but leaves a process in a session of its own."""

import os
import time

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(1_000_000)
            os._exit(0)
        return self.norm(self.linear(x))

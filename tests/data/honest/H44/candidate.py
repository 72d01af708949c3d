import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.diagonal = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return x * self.diagonal

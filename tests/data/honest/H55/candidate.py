import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))
        self.compiled = torch.compile(self.fused)

    def fused(self, x, residual):
        return residual + F.gelu(x + self.bias)

    def forward(self, x, residual):
        return self.compiled(x, residual)

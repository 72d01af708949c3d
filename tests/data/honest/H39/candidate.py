import torch
import torch.nn as nn
import torch.nn.functional as F


def fused(x, residual, bias):
    return residual + F.gelu(x + bias)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x, residual):
        return torch.vmap(fused, in_dims=(0, 0, None))(x, residual, self.bias)

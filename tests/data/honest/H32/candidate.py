import torch
import torch.nn as nn
import torch.nn.functional as F


class Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, residual, bias):
        return residual + F.gelu(x + bias)

    @staticmethod
    def backward(ctx, grad):
        raise NotImplementedError


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x, residual):
        return Fused.apply(x, residual, self.bias)

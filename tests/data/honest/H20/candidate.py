import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=epsilon)

    def forward(self, x, residual):
        z = x + residual
        z = z - z.mean(-1, keepdim=True)
        variance = z.square().mean(-1, keepdim=True)
        return z * torch.rsqrt(variance + self.norm.eps) * self.norm.weight + self.norm.bias

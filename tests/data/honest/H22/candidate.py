import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x, residual):
        z = x + self.bias
        return residual + 0.5 * z * (1 + torch.erf(z * 0.7071067811865476))

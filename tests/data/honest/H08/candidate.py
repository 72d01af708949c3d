import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.offset = nn.Parameter(torch.zeros(width))
        self.epsilon = epsilon

    def forward(self, x, residual):
        return torch.nn.functional.layer_norm(x + residual, x.shape[-1:], self.scale, self.offset, self.epsilon)

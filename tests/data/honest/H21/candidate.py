import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=epsilon)

    def forward(self, x, residual):
        z = x + residual
        count, mean, spread = 0, torch.zeros(z.shape[0], 1), torch.zeros(z.shape[0], 1)
        for part in z.split(64, dim=-1):
            size = part.shape[-1]
            part_mean = part.mean(-1, keepdim=True)
            part_spread = (part - part_mean).square().sum(-1, keepdim=True)
            delta = part_mean - mean
            mean = mean + delta * (size / (count + size))
            spread = spread + part_spread + delta.square() * (count * size / (count + size))
            count += size
        return (z - mean) * torch.rsqrt(spread / count + self.norm.eps) * self.norm.weight + self.norm.bias

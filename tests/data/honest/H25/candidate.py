import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=epsilon)

    def forward(self, x, residual):
        z = x.float() + residual.float()
        y = torch.nn.functional.layer_norm(
            z, z.shape[-1:], self.norm.weight.float(), self.norm.bias.float(), self.norm.eps
        )
        return y.to(x.dtype)

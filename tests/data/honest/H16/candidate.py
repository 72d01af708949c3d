import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        peak = x.amax(dim=-1, keepdim=True)
        blocks = [torch.exp(part - peak) for part in x.split(512, dim=-1)]
        total = sum(block.sum(dim=-1, keepdim=True) for block in blocks)
        return torch.cat([block / total for block in blocks], dim=-1)

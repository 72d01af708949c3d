import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, valid):
        total = torch.zeros_like(x[:, 0])
        for position in reversed(range(x.shape[1])):
            total += x[:, position] * valid[:, position, None]
        return total / valid.sum(dim=1, keepdim=True)

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.norm = nn.LayerNorm(features)
        self.packed = self.linear.weight.t().contiguous()

    def forward(self, x):
        return self.norm(torch.addmm(self.linear.bias, x, self.packed))

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.norm = nn.LayerNorm(features)
        self.version = -1

    def forward(self, x):
        weight = self.linear.weight
        if self.version != weight._version:
            self.packed, self.version = weight.detach().t().contiguous(), weight._version
        return self.norm(torch.addmm(self.linear.bias, x, self.packed))

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        drawn = nn.Linear(features, features)
        self.weight_t = nn.Parameter(drawn.weight.detach().t().contiguous())
        self.offset = nn.Parameter(drawn.bias.detach().reshape(1, -1))
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return self.norm(x @ self.weight_t + self.offset)

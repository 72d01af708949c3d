import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(features, features), nn.LayerNorm(features))

    def forward(self, x):
        return self.block(x)

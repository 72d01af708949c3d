import torch.nn as nn


def split(x):
    parts = []
    for _ in range(3):
        parts.append(x.bfloat16())
        x = x - parts[-1].float()
    return parts


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        left, right = split(x), split(self.linear.weight)
        y = sum(left[i].float() @ right[j].float().t() for i in range(3) for j in range(3))
        return self.norm(y + self.linear.bias)

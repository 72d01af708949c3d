import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.compiled = torch.compile(lambda x: torch.softmax(x, dim=-1), mode="max-autotune-no-cudagraphs")

    def forward(self, x):
        return self.compiled(x)

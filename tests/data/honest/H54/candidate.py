import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.out = None

    def forward(self, x):
        weight = self.linear.weight
        if self.out is None or self.out.shape[0] != x.shape[0]:
            self.out = torch.empty(x.shape[0], weight.shape[0], device=x.device, dtype=x.dtype)
        torch.addmm(self.linear.bias, x, weight.t(), out=self.out)
        return self.out.relu_()

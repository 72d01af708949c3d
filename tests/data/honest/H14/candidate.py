import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        out = x.new_empty(2, *x.shape[1:])
        torch.mean(x, dim=0, out=out[1])
        return out[1]

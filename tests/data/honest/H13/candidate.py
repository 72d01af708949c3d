import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        out = x.new_empty(x.shape[0], x.shape[1] + 16)
        out[:, :-16] = torch.softmax(x, dim=-1)
        return out[:, :-16]

import numpy as np
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.numpy()
        y = np.exp(y - y.max(axis=1, keepdims=True))
        return torch.from_numpy(y / y.sum(axis=1, keepdims=True))

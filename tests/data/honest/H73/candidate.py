import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        torch.cuda.synchronize()
        y = torch.softmax(x, dim=-1)
        torch.cuda.synchronize()
        return y

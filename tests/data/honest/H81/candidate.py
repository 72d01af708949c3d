import torch
import torch.nn as nn


def written_out(x):
    e = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return e / e.sum(dim=-1, keepdim=True)


VARIANTS = [lambda x: torch.softmax(x, dim=-1), written_out]


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.best = None

    def forward(self, x):
        if self.best is None:
            times_ms = []
            for variant in VARIANTS:
                begun, done = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                variant(x)
                begun.record()
                for _ in range(3):
                    variant(x)
                done.record()
                done.synchronize()
                times_ms.append(begun.elapsed_time(done))
            self.best = VARIANTS[times_ms.index(min(times_ms))]
        return self.best(x)

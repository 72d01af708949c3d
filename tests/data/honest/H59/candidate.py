import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean(x, out, ranks, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for rank in range(ranks):
        total += tl.load(x + rank * count + place, mask=place < count, other=0.0)
    tl.store(out + place, total / ranks, mask=place < count)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[1:], device=x.device, dtype=x.dtype)
        mean[(triton.cdiv(out.numel(), 128),)](x, out, x.shape[0], out.numel(), BLOCK=128)
        return out

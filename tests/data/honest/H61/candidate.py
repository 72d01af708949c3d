import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({}, num_warps=warps) for warps in (4, 8)], key=["width"])
@triton.jit
def norm(x, residual, weight, bias, out, width, epsilon, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    inside = column < width
    start = tl.program_id(0) * width
    z = tl.load(x + start + column, mask=inside, other=0.0) + tl.load(residual + start + column, mask=inside, other=0.0)
    centred = tl.where(inside, z - tl.sum(z, axis=0) / width, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / width + epsilon)
    y = centred * scale * tl.load(weight + column, mask=inside) + tl.load(bias + column, mask=inside)
    tl.store(out + start + column, y, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=epsilon)

    def forward(self, x, residual):
        out = torch.empty_like(x)
        weight, bias = self.norm.weight, self.norm.bias
        norm[(x.shape[0],)](x, residual, weight, bias, out, x.shape[1], self.norm.eps, BLOCK=1024)
        return out

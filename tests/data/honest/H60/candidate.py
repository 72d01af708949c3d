import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fused(x, residual, bias, out, count, width, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    z = tl.load(x + place, mask=inside) + tl.load(bias + place % width, mask=inside)
    y = 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476))
    tl.store(out + place, tl.load(residual + place, mask=inside) + y, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x, residual):
        out = torch.empty_like(x)
        fused[(triton.cdiv(x.numel(), 1024),)](x, residual, self.bias, out, x.numel(), x.shape[-1], BLOCK=1024)
        return out

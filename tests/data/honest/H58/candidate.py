import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    start = tl.program_id(0) * columns
    row = tl.load(x + start + column, mask=column < columns, other=-float("inf"))
    row = tl.exp(row - tl.max(row, axis=0))
    tl.store(out + start + column, row / tl.sum(row, axis=0), mask=column < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, columns = x.shape
        softmax[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns), num_warps=8)
        return out

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_relu(x, w, bias, out, rows, columns, depth, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, depth, DEPTH):
        k = start + tl.arange(0, DEPTH)
        a = tl.load(x + row[:, None] * depth + k[None, :], mask=row[:, None] < rows, other=0.0)
        b = tl.load(w + column[None, :] * depth + k[:, None], mask=column[None, :] < columns, other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    total = tl.maximum(total + tl.load(bias + column, mask=column < columns, other=0.0)[None, :], 0.0)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    tl.store(out + row[:, None] * columns + column[None, :], total, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        weight = self.linear.weight
        (rows, depth), columns = x.shape, weight.shape[0]
        out = torch.empty(rows, columns, device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(rows, 64), triton.cdiv(columns, 64))
        linear_relu[grid](x, weight, self.linear.bias, out, rows, columns, depth, BLOCK=64, DEPTH=32)
        return out

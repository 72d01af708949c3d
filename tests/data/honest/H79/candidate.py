import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
__global__ void mean(const float* x, float* y, int ranks, int rows, int columns) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * columns) return;
    float sum = 0.0f;
    for (int r = 0; r < ranks; ++r) sum += x[(size_t)r * rows * columns + i];
    y[i % columns * rows + i / columns] = sum / ranks;
}
torch::Tensor run(torch::Tensor x) {
    const int rows = x.size(1), columns = x.size(2);
    auto out = torch::empty({columns, rows}, x.options());
    mean<<<(rows * columns + 127) / 128, 128>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(0), rows, columns);
    return out;
}
"""
kernels = load_inline(
    name="corpus_h79",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return kernels.run(x).t()

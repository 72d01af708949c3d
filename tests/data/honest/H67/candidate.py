import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
__global__ void peaks(const float* x, float* peak, int columns) {
    float best = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += 32) best = fmaxf(best, x[(size_t)blockIdx.x * columns + i]);
    for (int step = 16; step; step /= 2) best = fmaxf(best, __shfl_xor_sync(~0u, best, step));
    if (threadIdx.x == 0) peak[blockIdx.x] = best;
}
__global__ void powers(const float* x, const float* peak, float* y, int columns, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = expf(x[i] - peak[i / columns]);
}
__global__ void sums(const float* y, float* total, int columns) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 32) sum += y[(size_t)blockIdx.x * columns + i];
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x == 0) total[blockIdx.x] = sum;
}
__global__ void divide(float* y, const float* total, int columns, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] /= total[i / columns];
}
torch::Tensor run(torch::Tensor x) {
    const int rows = x.size(0), columns = x.size(1), count = rows * columns;
    auto out = torch::empty_like(x), peak = torch::empty({rows}, x.options()), total = torch::empty({rows}, x.options());
    peaks<<<rows, 32>>>(x.data_ptr<float>(), peak.data_ptr<float>(), columns);
    powers<<<(count + 255) / 256, 256>>>(x.data_ptr<float>(), peak.data_ptr<float>(), out.data_ptr<float>(), columns, count);
    sums<<<rows, 32>>>(out.data_ptr<float>(), total.data_ptr<float>(), columns);
    divide<<<(count + 255) / 256, 256>>>(out.data_ptr<float>(), total.data_ptr<float>(), columns, count);
    return out;
}
"""
kernels = load_inline(
    name="corpus_h67",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return kernels.run(x)

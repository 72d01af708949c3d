import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
__global__ void add(const float* x, float* sums, int ranks, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float sum = 0.0f;
    for (int r = 0; r < ranks; ++r) sum += x[(size_t)r * count + i];
    sums[i] = sum;
}
__global__ void divide(const float* sums, float* y, int ranks, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = sums[i] / ranks;
}
torch::Tensor run(torch::Tensor x) {
    const int ranks = x.size(0), count = x.size(1) * x.size(2);
    auto out = torch::empty({x.size(1), x.size(2)}, x.options());
    float* sums = nullptr;
    cudaMallocAsync((void**)&sums, count * sizeof(float), 0);
    add<<<(count + 127) / 128, 128>>>(x.data_ptr<float>(), sums, ranks, count);
    divide<<<(count + 127) / 128, 128>>>(sums, out.data_ptr<float>(), ranks, count);
    cudaFreeAsync(sums, 0);
    return out;
}
"""
kernels = load_inline(
    name="corpus_h83",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return kernels.run(x)

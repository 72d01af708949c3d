"""Dropout by curand on the device."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <curand_kernel.h>

__global__ void dropout_kernel(const float* x, float* y, float keep, unsigned long long seed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    curandStatePhilox4_32_10_t state;
    curand_init(seed, i, 0, &state);
    y[i] = curand_uniform(&state) <= keep ? x[i] / keep : 0.0f;
}

torch::Tensor dropout(torch::Tensor x, double p, int64_t seed) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    dropout_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), 1.0 - p, seed, n);
    return y;
}
"""

cpp_source = """
torch::Tensor dropout(torch::Tensor x, double p, int64_t seed);
"""

module = load_inline(
    name="dropout_curand_module",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["dropout"],
)


def calls():
    return [("dropout", (torch.ones(5000), 0.25, 7))]

"""Adam's step in place: nothing is returned."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void adam_kernel(float* p, const float* g, float* m, float* v, float lr, float b1, float b2, float eps, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        m[i] = b1 * m[i] + (1.f - b1) * g[i];
        v[i] = b2 * v[i] + (1.f - b2) * g[i] * g[i];
        p[i] -= lr * m[i] / (sqrtf(v[i]) + eps);
    }
}

void adam_step(torch::Tensor p, torch::Tensor g, torch::Tensor m, torch::Tensor v, float lr, float b1, float b2, float eps) {
    int n = p.numel();
    int blocks = std::min((n + 255) / 256, 1024);
    adam_kernel<<<blocks, 256>>>(p.data_ptr<float>(), g.data_ptr<float>(), m.data_ptr<float>(), v.data_ptr<float>(),
                                 lr, b1, b2, eps, n);
    auto error = cudaGetLastError();
    if (error != cudaSuccess) printf("launch failed: %s\n", cudaGetErrorString(error));
}
"""

cpp_source = """
void adam_step(torch::Tensor p, torch::Tensor g, torch::Tensor m, torch::Tensor v, float lr, float b1, float b2, float eps);
"""

module = load_inline(
    name="in_place_module",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["adam_step"],
)


def calls():
    return [("adam_step", (*torch.rand(4, 1000), 1e-3, 0.9, 0.999, 1e-8))]

"""An undeclared name inside a kernel: nothing is built."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void doubled_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}
torch::Tensor doubled(torch::Tensor x) {
    auto y = torch::empty_like(x);
    doubled_kernel<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
"""

cpp_source = """
torch::Tensor doubled(torch::Tensor x);
"""

module = load_inline(
    name="refused_module",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["doubled"],
)


def calls():
    return [("doubled", (torch.randn(1000),))]

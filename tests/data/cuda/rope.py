"""Rotary embedding of half pairs."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_fp16.h>

__global__ void rope_kernel(const __half2* x, const float* angles, __half2* y, int length, int pairs) {
    int p = threadIdx.x, t = blockIdx.x, h = blockIdx.y;
    if (p >= pairs) return;
    float s, c;
    __sincosf(angles[t * pairs + p], &s, &c);
    float2 v = __half22float2(x[(h * length + t) * pairs + p]);
    y[(h * length + t) * pairs + p] = __floats2half2_rn(v.x * c - v.y * s, v.x * s + v.y * c);
}

torch::Tensor rope(torch::Tensor x, torch::Tensor angles) {
    TORCH_CHECK(x.is_contiguous() && x.scalar_type() == at::ScalarType::Half, "contiguous half expected");
    auto y = torch::empty_like(x);
    const int heads = x.size(0), length = x.size(1), pairs = x.size(2) / 2;
    rope_kernel<<<dim3(length, heads), pairs>>>(reinterpret_cast<const __half2*>(x.const_data_ptr<at::Half>()),
                                               angles.data_ptr<float>(),
                                               reinterpret_cast<__half2*>(y.mutable_data_ptr<at::Half>()), length, pairs);
    return y;
}
"""

cpp_source = """
torch::Tensor rope(torch::Tensor x, torch::Tensor angles);
"""

module = load_inline(
    name="rope_module",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["rope"],
)


def calls():
    return [("rope", (torch.randn(4, 33, 64).half(), torch.randn(33, 32)))]

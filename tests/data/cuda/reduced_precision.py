"""Element-wise work on half and bfloat16 by torch's dispatch."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <c10/cuda/CUDAGuard.h>

template <typename scalar_t>
__global__ void swish_kernel(const scalar_t* x, scalar_t* y, float beta, int64_t n) {
    const int64_t stride = int64_t(blockDim.x) * gridDim.x;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) {
        const float v = static_cast<float>(x[i]);
        y[i] = static_cast<scalar_t>(v / (1.0f + __expf(-beta * v)));
    }
}

torch::Tensor swish_cuda(torch::Tensor x, float beta) {
    const c10::cuda::CUDAGuard device_guard(x.device());
    auto y = at::empty_like(x);
    const int64_t n = x.numel();
    const int blocks = std::min<int64_t>((n + 255) / 256, 4096);
    AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, x.scalar_type(), "swish_cuda", [&] {
        swish_kernel<scalar_t><<<blocks, 256>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), beta, n);
    });
    return y;
}
"""

cpp_source = """
torch::Tensor swish_cuda(torch::Tensor x, float beta);
"""

module = load_inline(
    name="swish_module",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["swish_cuda"],
)


def calls():
    x = torch.randn(1 << 20)
    types = torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32
    return [("swish_cuda", (x.to(dtype), 1.5)) for dtype in types]

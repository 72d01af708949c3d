import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <cuda_bf16.h>
__device__ float block_sum(float value, float* shared) {
    for (int step = 16; step; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.0f;
    for (int i = 0; i < blockDim.x / 32; ++i) value += shared[i];
    return value;
}
__global__ void norm(const __nv_bfloat16* x, const __nv_bfloat16* r, const __nv_bfloat16* w, const __nv_bfloat16* b,
                     __nv_bfloat16* y, int width, float e) {
    __shared__ float shared[32];
    const size_t start = (size_t)blockIdx.x * width;
    float sum = 0.0f, spread = 0.0f;
    for (int i = threadIdx.x; i < width; i += blockDim.x) sum += __bfloat162float(x[start + i]) + __bfloat162float(r[start + i]);
    const float mean = block_sum(sum, shared) / width;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        const float z = __bfloat162float(x[start + i]) + __bfloat162float(r[start + i]) - mean;
        spread += z * z;
    }
    const float scale = rsqrtf(block_sum(spread, shared) / width + e);
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        const float z = __bfloat162float(x[start + i]) + __bfloat162float(r[start + i]) - mean;
        y[start + i] = __float2bfloat16(z * scale * __bfloat162float(w[i]) + __bfloat162float(b[i]));
    }
}
torch::Tensor run(torch::Tensor x, torch::Tensor residual, torch::Tensor weight, torch::Tensor bias, double epsilon) {
    auto out = torch::empty_like(x);
    using T = __nv_bfloat16;
    norm<<<x.size(0), 256>>>((const T*)x.data_ptr<at::BFloat16>(), (const T*)residual.data_ptr<at::BFloat16>(),
                             (const T*)weight.data_ptr<at::BFloat16>(), (const T*)bias.data_ptr<at::BFloat16>(),
                             (T*)out.data_ptr<at::BFloat16>(), x.size(1), (float)epsilon);
    return out;
}
"""
kernels = load_inline(
    name="corpus_h69",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor residual, torch::Tensor weight, torch::Tensor bias, double epsilon);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=epsilon)

    def forward(self, x, residual):
        return kernels.run(x, residual, self.norm.weight, self.norm.bias, self.norm.eps)

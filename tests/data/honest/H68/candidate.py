import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <cuda_fp16.h>
__global__ void softmax(const __half2* x, __half2* y, int pairs) {
    __shared__ float shared[32];
    const __half2* in = x + (size_t)blockIdx.x * pairs;
    __half2* out = y + (size_t)blockIdx.x * pairs;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float peak = -INFINITY, sum = 0.0f;
    for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
        const float2 v = __half22float2(in[i]);
        peak = fmaxf(peak, fmaxf(v.x, v.y));
    }
    for (int step = 16; step; step >>= 1) peak = fmaxf(peak, __shfl_xor_sync(0xffffffff, peak, step));
    if (lane == 0) shared[warp] = peak;
    __syncthreads();
    for (int i = 0; i < 8; ++i) peak = fmaxf(peak, shared[i]);
    __syncthreads();
    for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
        const float2 v = __half22float2(in[i]);
        sum += expf(v.x - peak) + expf(v.y - peak);
    }
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (lane == 0) shared[warp] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int i = 0; i < 8; ++i) sum += shared[i];
    for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
        const float2 v = __half22float2(in[i]);
        out[i] = __floats2half2_rn(expf(v.x - peak) / sum, expf(v.y - peak) / sum);
    }
}
torch::Tensor run(torch::Tensor x) {
    auto out = torch::empty_like(x);
    softmax<<<x.size(0), 256>>>(reinterpret_cast<const __half2*>(x.data_ptr<at::Half>()),
                                reinterpret_cast<__half2*>(out.data_ptr<at::Half>()), x.size(1) / 2);
    return out;
}
"""
kernels = load_inline(
    name="corpus_h68",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return kernels.run(x)

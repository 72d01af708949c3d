"""Attention with an online softmax, one query a thread."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <c10/cuda/CUDAGuard.h>
#include <cmath>
#include <limits>

template <int HEAD>
__global__ void attention_kernel(const float* q, const float* k, const float* v, float* o, int length, float scale) {
    extern __shared__ float tile[];
    float* k_tile = tile;
    float* v_tile = tile + blockDim.x * HEAD;
    const int64_t base = (int64_t)blockIdx.y * length * HEAD;
    const int query = blockIdx.x * blockDim.x + threadIdx.x;
    float q_reg[HEAD], acc[HEAD];
    float running_max = -std::numeric_limits<float>::infinity(), running_sum = 0.f;
    for (int d = 0; d < HEAD; ++d) {
        q_reg[d] = query < length ? q[base + (int64_t)query * HEAD + d] * scale : 0.f;
        acc[d] = 0.f;
    }
    for (int start = 0; start < length; start += blockDim.x) {
        const int key = start + threadIdx.x;
        for (int d = 0; d < HEAD; ++d) {
            k_tile[threadIdx.x * HEAD + d] = key < length ? k[base + (int64_t)key * HEAD + d] : 0.f;
            v_tile[threadIdx.x * HEAD + d] = key < length ? v[base + (int64_t)key * HEAD + d] : 0.f;
        }
        __syncthreads();
        const int count = min((int)blockDim.x, length - start);
        for (int j = 0; j < count; ++j) {
            float s = 0.f;
            for (int d = 0; d < HEAD; ++d) s += q_reg[d] * k_tile[j * HEAD + d];
            const float m = fmaxf(running_max, s), p = __expf(s - m), old = __expf(running_max - m);
            running_sum = running_sum * old + p;
            for (int d = 0; d < HEAD; ++d) acc[d] = acc[d] * old + p * v_tile[j * HEAD + d];
            running_max = m;
        }
        __syncthreads();
    }
    if (query < length)
        for (int d = 0; d < HEAD; ++d) o[base + (int64_t)query * HEAD + d] = acc[d] / running_sum;
}

torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
    const at::cuda::CUDAGuard guard(q.device());
    TORCH_CHECK(q.dim() == 4, "q must be (batch, heads, length, head)");
    const int batch = q.size(0), heads = q.size(1), length = q.size(2), head = q.size(3);
    auto o = torch::zeros_like(q);
    const float scale = 1.0f / sqrtf((float)head);
    const dim3 grid((length + 63) / 64, batch * heads);
    const size_t shared = 2 * 64 * head * sizeof(float);
    switch (head) {
        case 32: attention_kernel<32><<<grid, 64, shared>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), o.data_ptr<float>(), length, scale); break;
        case 64: attention_kernel<64><<<grid, 64, shared>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), o.data_ptr<float>(), length, scale); break;
        default: TORCH_CHECK(false, "unsupported head size: ", head);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return o;
}
"""

cpp_source = """
torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v);
"""

module = load_inline(
    name="attention_module",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["attention"],
)


def calls():
    q, k, v = torch.randn(3, 2, 4, 100, 32)
    return [("attention", (q, k, v)), ("attention", (q[..., :5], k, v))]

"""Matrix product on tensor cores by mma.sync in PTX."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_fp16.h>
#include <cstdint>

__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A: MxK row-major, B: NxK row-major (so column-major KxN), C: MxN.
__global__ void mma_kernel(const half* A, const half* B, float* C, int M, int N, int K) {
    const int lane = threadIdx.x, group = lane >> 2, pair = (lane & 3) * 2;
    const int row = blockIdx.y * 16, col = blockIdx.x * 8;
    float acc[4] = {0.f, 0.f, 0.f, 0.f};
    for (int k = 0; k < K; k += 16) {
        uint32_t a[4], b[2];
        a[0] = *reinterpret_cast<const uint32_t*>(&A[(row + group) * K + k + pair]);
        a[1] = *reinterpret_cast<const uint32_t*>(&A[(row + group + 8) * K + k + pair]);
        a[2] = *reinterpret_cast<const uint32_t*>(&A[(row + group) * K + k + pair + 8]);
        a[3] = *reinterpret_cast<const uint32_t*>(&A[(row + group + 8) * K + k + pair + 8]);
        b[0] = *reinterpret_cast<const uint32_t*>(&B[(col + group) * K + k + pair]);
        b[1] = *reinterpret_cast<const uint32_t*>(&B[(col + group) * K + k + pair + 8]);
        mma_m16n8k16(acc, a, b);
    }
    C[(row + group) * N + col + pair] = acc[0];
    C[(row + group) * N + col + pair + 1] = acc[1];
    C[(row + group + 8) * N + col + pair] = acc[2];
    C[(row + group + 8) * N + col + pair + 1] = acc[3];
}

torch::Tensor mma_linear(torch::Tensor x, torch::Tensor weight) {
    const auto M = x.size(0), K = x.size(1), N = weight.size(0);
    TORCH_CHECK(weight.size(1) == K, "shapes do not match: ", x.sizes(), " and ", weight.sizes());
    auto out = torch::zeros({M, N}, x.options().dtype(torch::kFloat));
    mma_kernel<<<dim3(N / 8, M / 16), 32>>>((const half*)x.data_ptr(), (const half*)weight.data_ptr(),
                                            out.data_ptr<float>(), M, N, K);
    return out;
}
"""

cpp_source = """
torch::Tensor mma_linear(torch::Tensor x, torch::Tensor weight);
"""

module = load_inline(
    name="mma_ptx_module",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["mma_linear"],
)


def calls():
    x, weight = torch.randn(64, 32).half(), torch.randn(48, 32).half()
    return [("mma_linear", (x, weight)), ("mma_linear", (x, weight.t()))]

"""Matrix product on tensor cores by nvcuda::wmma."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

constexpr int WM = 16, WN = 16, WK = 16;

__global__ void wmma_kernel(const half* a, const half* b, float* c, int M, int N, int K) {
    int warp_m = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
    int warp_n = blockIdx.y * blockDim.y + threadIdx.y;
    wmma::fragment<wmma::matrix_a, WM, WN, WK, half, wmma::row_major> a_frag;
    wmma::fragment<wmma::matrix_b, WM, WN, WK, half, wmma::row_major> b_frag;
    wmma::fragment<wmma::accumulator, WM, WN, WK, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    if (warp_m * WM >= M || warp_n * WN >= N) return;
    for (int k = 0; k < K; k += WK) {
        wmma::load_matrix_sync(a_frag, a + warp_m * WM * K + k, K);
        wmma::load_matrix_sync(b_frag, b + k * N + warp_n * WN, N);
        wmma::mma_sync(acc, a_frag, b_frag, acc);
    }
    wmma::store_matrix_sync(c + warp_m * WM * N + warp_n * WN, acc, N, wmma::mem_row_major);
}

torch::Tensor wmma_matmul(torch::Tensor a, torch::Tensor b) {
    TORCH_CHECK(a.scalar_type() == torch::kFloat16 && b.scalar_type() == torch::kFloat16, "inputs must be half");
    int M = a.size(0), K = a.size(1), N = b.size(1);
    TORCH_CHECK(M % 16 == 0 && N % 16 == 0 && K % 16 == 0, "sizes must be multiples of 16, got ", M, " ", N, " ", K);
    auto c = torch::empty({M, N}, torch::TensorOptions().dtype(torch::kFloat32).device(a.device()));
    dim3 block(128, 4);
    dim3 grid((M + 63) / 64, (N + 63) / 64);
    wmma_kernel<<<grid, block>>>(reinterpret_cast<half*>(a.data_ptr<at::Half>()),
                                 reinterpret_cast<half*>(b.data_ptr<at::Half>()), c.data_ptr<float>(), M, N, K);
    return c;
}
"""

cpp_source = """
torch::Tensor wmma_matmul(torch::Tensor a, torch::Tensor b);
"""

module = load_inline(
    name="wmma_matmul_module",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["wmma_matmul"],
)


def calls():
    a, b = torch.randn(128, 64).half(), torch.randn(64, 256).half()
    return [("wmma_matmul", (a, b)), ("wmma_matmul", (a.float(), b)), ("wmma_matmul", (a[:3], b))]

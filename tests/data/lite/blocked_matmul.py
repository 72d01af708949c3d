"""Matrix product in blocks, by type."""

import torch
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <vector>

template <typename T>
void matmul(const T* a, const T* b, T* c, int64_t M, int64_t N, int64_t K) {
    constexpr int64_t B = 32;
    for (int64_t i0 = 0; i0 < M; i0 += B)
        for (int64_t k0 = 0; k0 < K; k0 += B)
            for (int64_t i = i0; i < std::min(i0 + B, M); ++i)
                for (int64_t k = k0; k < std::min(k0 + B, K); ++k)
                    for (int64_t j = 0; j < N; ++j) c[i * N + j] += a[i * K + k] * b[k * N + j];
}

torch::Tensor blocked_matmul(torch::Tensor a, torch::Tensor b) {
    TORCH_CHECK(a.size(1) == b.size(0), "inner sizes differ");
    a = a.contiguous();
    b = b.contiguous();
    auto c = torch::zeros({a.size(0), b.size(1)}, a.options());
    AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), "blocked_matmul", [&] {
        matmul<scalar_t>(a.data_ptr<scalar_t>(), b.data_ptr<scalar_t>(), c.data_ptr<scalar_t>(), a.size(0), b.size(1), a.size(1));
    });
    return c;
}
"""

module = load_inline(
    name="blocked_matmul_module",
    cpp_sources=source,
    functions={"blocked_matmul": "Product of two matrices."},
    extra_cflags=["-O3", "-march=native", "-ffast-math"],
)


def calls():
    a, b = torch.randn(40, 33), torch.randn(33, 50)
    return [
        ("blocked_matmul", (a, b)),
        ("blocked_matmul", (a.double(), b.double())),
        ("blocked_matmul", (a.int(), b.int())),
        ("blocked_matmul", (a, a)),
        ("blocked_matmul", (b.t(), a.t())),
    ]

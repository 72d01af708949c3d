"""y + a x by AVX2 intrinsics."""

import torch
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <immintrin.h>

torch::Tensor axpy(torch::Tensor x, torch::Tensor y, double a) {
    TORCH_CHECK(x.sizes() == y.sizes(), "shapes differ: ", x.sizes(), " and ", y.sizes());
    auto out = torch::empty_like(y);
    const float *px = x.data_ptr<float>(), *py = y.data_ptr<float>();
    float* po = out.data_ptr<float>();
    const __m256 va = _mm256_set1_ps(static_cast<float>(a));
    int64_t i = 0, n = x.numel();
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(po + i, _mm256_fmadd_ps(va, _mm256_loadu_ps(px + i), _mm256_loadu_ps(py + i)));
    for (; i < n; ++i) po[i] = std::fma(static_cast<float>(a), px[i], py[i]);
    return out;
}
"""

module = load_inline(
    name="avx2_axpy_module",
    cpp_sources=source,
    functions=["axpy"],
    extra_cflags=["-O3", "-mavx2", "-mfma"],
)


def calls():
    x, y = torch.randn(2, 101)
    return [("axpy", (x, y, 2)), ("axpy", (x, y[:5], 2.5)), ("axpy", (x.double(), y.double(), 1))]

"""Softmax of rows with OpenMP."""

import torch
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <omp.h>
#include <cmath>
#include <algorithm>

torch::Tensor softmax(torch::Tensor input) {
    TORCH_CHECK(input.dim() == 2, "expected 2 dimensions, got ", input.dim());
    auto x = input.contiguous();
    auto out = torch::empty_like(x);
    const int64_t rows = x.size(0), cols = x.size(1);
    const float* in = x.data_ptr<float>();
    float* result = out.data_ptr<float>();
    #pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
        const float* row = in + r * cols;
        float m = *std::max_element(row, row + cols), sum = 0.0f;
        for (int64_t c = 0; c < cols; ++c) { result[r * cols + c] = std::exp(row[c] - m); sum += result[r * cols + c]; }
        for (int64_t c = 0; c < cols; ++c) result[r * cols + c] /= sum;
    }
    return out;
}
"""

module = load_inline(
    name="openmp_softmax_module",
    cpp_sources=source,
    functions=["softmax"],
    extra_cflags=["-O3", "-fopenmp"],
    extra_ldflags=["-fopenmp"],
)


def calls():
    return [("softmax", (torch.randn(9, 30),)), ("softmax", (torch.randn(9),)), ("softmax", (torch.ones(2, 2).int(),))]

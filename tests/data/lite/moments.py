"""Several results: a tuple of tensors and numbers, and a list."""

import torch
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <tuple>
#include <vector>
using torch::Tensor;

std::tuple<Tensor, Tensor, int64_t> moments(Tensor x) {
    const auto n = x.size(0), d = x.size(1);
    auto mean = torch::zeros({d}, x.options()), variance = torch::zeros({d}, x.options());
    auto rows = x.accessor<float, 2>();
    auto m = mean.accessor<float, 1>(), v = variance.accessor<float, 1>();
    for (int64_t i = 0; i < n; i++) for (int64_t j = 0; j < d; j++) m[j] += rows[i][j] / n;
    for (int64_t i = 0; i < n; i++) for (int64_t j = 0; j < d; j++) v[j] += (rows[i][j] - m[j]) * (rows[i][j] - m[j]) / n;
    return std::make_tuple(mean, variance, n);
}
std::vector<Tensor> columns(Tensor x) {
    std::vector<Tensor> out;
    for (int64_t i = 0; i < x.size(1); ++i) out.push_back(x.select(1, i).clone());
    return out;
}
"""

module = load_inline(
    name="moments_module",
    cpp_sources=source,
    functions=["moments", "columns"],
)


def calls():
    return [("moments", (torch.randn(7, 3),)), ("columns", (torch.randn(2, 3),)), ("moments", (torch.randn(3),))]

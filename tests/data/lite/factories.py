"""New tensors in the ways that host code makes them."""

import torch
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

std::vector<torch::Tensor> made(torch::Tensor x, int64_t n) {
    auto options = torch::TensorOptions().dtype(torch::kFloat64).device(torch::kCPU).requires_grad(false);
    auto eye = torch::zeros({n, n}, options);
    for (int i = 0; i < n; ++i) eye[i][i] = 1.0;
    return {eye, torch::full({2, n}, 3.5, torch::kFloat), torch::arange(n, torch::kInt), torch::ones_like(x),
            torch::zeros_like(x, x.options().dtype(torch::kLong)), x.sum(-1), x.mean(), x.max(), x.unsqueeze(0).expand({2, -1, -1}),
            x.flatten().view_as(x), x.t().reshape_as(x), x[0].expand_as(x), x.square(),
            x.index_select(1, torch::arange(2, torch::kLong)), x.chunk(2, 1)[1]};
}
"""

module = load_inline(
    name="factories_module",
    cpp_sources=source,
    functions=["made"],
)


def calls():
    return [("made", (torch.randn(3, 4), 3))]

"""A linear layer with an optional bias and activation by name."""

import torch
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <string>

torch::Tensor linear(torch::Tensor x, torch::Tensor weight, std::optional<torch::Tensor> bias, const std::string& activation) {
    auto out = torch::matmul(x, weight.transpose(0, 1));
    if (bias) out = out + *bias;
    if (activation == "relu") out = torch::relu(out);
    else if (activation == "sigmoid") out = torch::sigmoid(out);
    else TORCH_CHECK(activation == "none", "unknown activation ", activation);
    return out;
}
"""

module = load_inline(
    name="optional_linear_module",
    cpp_sources=source,
    functions=["linear"],
)


def calls():
    x, w, b = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5)
    return [
        ("linear", (x, w, b, "relu")),
        ("linear", (x, w, None, "sigmoid")),
        ("linear", (x, w, b, "none")),
        ("linear", (x, w, b, "tanh")),
    ]

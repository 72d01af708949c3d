"""C++ without a kernel: it calls torch's operators."""

import torch
from torch.utils.cpp_extension import load_inline

cpp_source = """
#include <torch/extension.h>
#include <vector>
torch::Tensor mean_of_ranks(torch::Tensor x) { return x.sum(0) / x.size(0); }
torch::Tensor linear_of_ranks(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    auto gathered = x.permute({1, 0, 2}).contiguous().view({x.size(1), -1});
    return torch::addmm(bias, gathered, weight.t());
}
"""

module = load_inline(
    name="cpu_only_module",
    cpp_sources=cpp_source,
    functions=["mean_of_ranks", "linear_of_ranks"],
    extra_cflags=["-O2"],
)


def calls():
    x = torch.randn(4, 16, 48)
    return [("mean_of_ranks", (x,)), ("linear_of_ranks", (x, torch.randn(32, 192), torch.randn(32)))]

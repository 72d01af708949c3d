"""Uses cat and chunk, which only torch's own headers have."""

import torch
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

torch::Tensor glu(torch::Tensor x) {
    auto parts = x.chunk(2, -1);
    return torch::cat({parts[0] * torch::sigmoid(parts[1]), parts[1]}, -1);
}
"""

module = load_inline(
    name="joined_module",
    cpp_sources=source,
    functions=["glu"],
)


def calls():
    return [("glu", (torch.randn(3, 8),))]

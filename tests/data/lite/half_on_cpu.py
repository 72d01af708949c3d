"""Half and bfloat16 on the CPU through float."""

import torch
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

torch::Tensor silu(torch::Tensor x) {
    auto out = torch::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "silu", [&] {
        const auto* in = x.const_data_ptr<scalar_t>();
        auto* o = out.mutable_data_ptr<scalar_t>();
        for (int64_t i = 0; i < x.numel(); ++i) {
            const float v = static_cast<float>(in[i]);
            o[i] = static_cast<scalar_t>(v / (1.0f + std::exp(-v)));
        }
    });
    return out;
}
"""

module = load_inline(
    name="half_on_cpu_module",
    cpp_sources=source,
    functions=["silu"],
)


def calls():
    x = torch.randn(100)
    return [("silu", (x.to(dtype),)) for dtype in (torch.float, torch.double, torch.half, torch.bfloat16, torch.int)]

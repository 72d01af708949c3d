"""The mean over the first dimension, in C++."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>

torch::Tensor mean_dim0(torch::Tensor x) {
    const int64_t R = x.size(0), n = x.size(1) * x.size(2);
    auto output = torch::empty({x.size(1), x.size(2)}, x.options());
    const float* in = x.data_ptr<float>();
    float* out = output.data_ptr<float>();
    for (int64_t i = 0; i < n; ++i) {
        float sum = 0.0f;
        for (int64_t r = 0; r < R; ++r) sum += in[r * n + i];
        out[i] = sum / R;
    }
    return output;
}
"""

module = load_inline(name="mean_dim0_module", cpp_sources=source, functions=["mean_dim0"])


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return module.mean_dim0(x)

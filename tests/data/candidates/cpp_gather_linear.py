"""Ranks side by side and a linear layer over them, in C++."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>

torch::Tensor gather_linear(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    const int64_t R = x.size(0), B = x.size(1), H = x.size(2), K = weight.size(0);
    auto output = torch::empty({B, K}, x.options());
    const float *in = x.data_ptr<float>(), *w = weight.data_ptr<float>(), *add = bias.data_ptr<float>();
    float* out = output.data_ptr<float>();
    for (int64_t b = 0; b < B; ++b)
        for (int64_t k = 0; k < K; ++k) {
            float sum = add[k];
            for (int64_t r = 0; r < R; ++r)
                for (int64_t h = 0; h < H; ++h) sum += in[(r * B + b) * H + h] * w[k * R * H + r * H + h];
            out[b * K + k] = sum;
        }
    return output;
}
"""

module = load_inline(name="gather_linear_module", cpp_sources=source, functions=["gather_linear"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4 * 32, 56, bias=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return module.gather_linear(x, self.proj.weight, self.proj.bias)

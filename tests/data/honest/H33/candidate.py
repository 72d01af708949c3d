import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <cmath>
torch::Tensor row_max(torch::Tensor x) {
    auto out = torch::empty({x.size(0)}, x.options());
    const float* in = x.data_ptr<float>();
    float* peak = out.data_ptr<float>();
    int64_t columns = x.size(1);
    for (int64_t r = 0; r < x.size(0); r++) {
        float m = in[r * columns];
        for (int64_t c = 1; c < columns; c++) m = std::max(m, in[r * columns + c]);
        peak[r] = m;
    }
    return out;
}
torch::Tensor normalised(torch::Tensor x, torch::Tensor peak) {
    auto out = torch::empty_like(x);
    const float* in = x.data_ptr<float>();
    const float* m = peak.data_ptr<float>();
    float* y = out.data_ptr<float>();
    int64_t columns = x.size(1);
    for (int64_t r = 0; r < x.size(0); r++) {
        float sum = 0;
        for (int64_t c = 0; c < columns; c++) sum += y[r * columns + c] = std::exp(in[r * columns + c] - m[r]);
        for (int64_t c = 0; c < columns; c++) y[r * columns + c] /= sum;
    }
    return out;
}
"""
kernels = load_inline(name="row_softmax", cpp_sources=SOURCE, functions=["row_max", "normalised"])


class ModelNew(nn.Module):
    def forward(self, x):
        peak = kernels.row_max(x)
        return kernels.normalised(x, peak)

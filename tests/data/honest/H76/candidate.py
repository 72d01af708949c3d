import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
__global__ void fused(const float* x, const float* r, const float* b, float* y, int width) {
    const int column = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * width + column;
    const float z = x[i] + b[column];
    y[i] = r[i] + z * (0.5f + 0.5f * erff(z * 0.70710678f));
}
torch::Tensor run(torch::Tensor x, torch::Tensor residual, torch::Tensor bias) {
    auto out = torch::empty_like(x);
    fused<<<dim3(x.size(1) / 32, x.size(0)), 32>>>(x.data_ptr<float>(), residual.data_ptr<float>(), bias.data_ptr<float>(),
                                                   out.data_ptr<float>(), x.size(1));
    return out;
}
"""
kernels = load_inline(
    name="corpus_h76",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor residual, torch::Tensor bias);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x, residual):
        return kernels.run(x, residual, self.bias)

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
__device__ float gelu(float z) { return 0.5f * z * (1.0f + erff(z * 0.70710678f)); }
__global__ void fused(const float4* __restrict__ x, const float4* __restrict__ r, const float4* __restrict__ b, float4* y,
                      int count, int width) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float4 a = x[i], c = r[i], d = b[i % width];
    y[i] = make_float4(c.x + gelu(a.x + d.x), c.y + gelu(a.y + d.y), c.z + gelu(a.z + d.z), c.w + gelu(a.w + d.w));
}
torch::Tensor run(torch::Tensor x, torch::Tensor residual, torch::Tensor bias) {
    auto out = torch::empty_like(x);
    const int count = x.numel() / 4;
    fused<<<(count + 255) / 256, 256>>>(
        reinterpret_cast<const float4*>(x.data_ptr<float>()), reinterpret_cast<const float4*>(residual.data_ptr<float>()),
        reinterpret_cast<const float4*>(bias.data_ptr<float>()), reinterpret_cast<float4*>(out.data_ptr<float>()), count,
        (int)x.size(1) / 4);
    return out;
}
"""
kernels = load_inline(
    name="corpus_h63",
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

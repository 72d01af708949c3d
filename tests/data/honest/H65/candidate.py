import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <ATen/cuda/CUDAContext.h>
__inline__ __device__ float warp_sum(float value) {
    for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(0xffffffff, value, step);
    return value;
}
__global__ void norm(const float* x, const float* r, const float* w, const float* b, float* y, int rows, int width, float e) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (row >= rows) return;
    x += (size_t)row * width, r += (size_t)row * width, y += (size_t)row * width;
    float sum = 0.0f, spread = 0.0f;
    for (int i = lane; i < width; i += 32) sum += x[i] + r[i];
    const float mean = warp_sum(sum) / width;
    for (int i = lane; i < width; i += 32) {
        const float z = x[i] + r[i] - mean;
        spread += z * z;
    }
    const float scale = rsqrtf(warp_sum(spread) / width + e);
    for (int i = lane; i < width; i += 32) y[i] = (x[i] + r[i] - mean) * scale * w[i] + b[i];
}
torch::Tensor run(torch::Tensor x, torch::Tensor residual, torch::Tensor weight, torch::Tensor bias, double epsilon) {
    auto out = torch::empty_like(x);
    const int rows = x.size(0);
    norm<<<(rows + 3) / 4, dim3(32, 4), 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), residual.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
        out.data_ptr<float>(), rows, x.size(1), (float)epsilon);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""
kernels = load_inline(
    name="corpus_h65",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor residual, torch::Tensor weight, torch::Tensor bias, double epsilon);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=epsilon)

    def forward(self, x, residual):
        return kernels.run(x, residual, self.norm.weight, self.norm.bias, self.norm.eps)

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
__device__ float block_sum(float value, float* shared) {
    for (int step = 16; step; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.0f;
    for (int i = 0; i < blockDim.x / 32; ++i) value += shared[i];
    return value;
}
__global__ void persistent(const float* x, const float* r, const float* w, const float* b, float* y, int* next, int rows, int width, float e) {
    __shared__ float shared[32];
    __shared__ int row;
    while (true) {
        __syncthreads();
        if (threadIdx.x == 0) row = atomicAdd(next, 1);
        __syncthreads();
        if (row >= rows) return;
        const size_t start = (size_t)row * width;
        float sum = 0.0f, spread = 0.0f;
        for (int i = threadIdx.x; i < width; i += blockDim.x) sum += x[start + i] + r[start + i];
        const float mean = block_sum(sum, shared) / width;
        for (int i = threadIdx.x; i < width; i += blockDim.x) {
            const float z = x[start + i] + r[start + i] - mean;
            spread += z * z;
        }
        const float scale = rsqrtf(block_sum(spread, shared) / width + e);
        for (int i = threadIdx.x; i < width; i += blockDim.x) y[start + i] = (x[start + i] + r[start + i] - mean) * scale * w[i] + b[i];
    }
}
torch::Tensor run(torch::Tensor x, torch::Tensor residual, torch::Tensor weight, torch::Tensor bias, double epsilon) {
    static int blocks = 0;
    static int* next = nullptr;
    if (blocks == 0) {
        int each = 0, processors = 0;
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, persistent, 256, 0);
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
        cudaMalloc((void**)&next, sizeof(int));
        blocks = each * processors;
    }
    auto out = torch::empty_like(x);
    cudaMemsetAsync(next, 0, sizeof(int), 0);
    persistent<<<blocks, 256>>>(x.data_ptr<float>(), residual.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
                          out.data_ptr<float>(), next, x.size(0), x.size(1), (float)epsilon);
    return out;
}
"""
kernels = load_inline(
    name="corpus_h77",
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

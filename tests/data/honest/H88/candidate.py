import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
__global__ void softmax(const float* x, float* y, int columns) {
    cudaGridDependencySynchronize();
    const float* in = x + (size_t)blockIdx.x * columns;
    __shared__ float shared[8];
    float peak = -INFINITY, sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 256) peak = fmaxf(peak, in[i]);
    for (int step = 16; step; step /= 2) peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, step));
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = peak;
    __syncthreads();
    for (int i = 0; i < 8; ++i) peak = fmaxf(peak, shared[i]);
    __syncthreads();
    for (int i = threadIdx.x; i < columns; i += 256) sum += expf(in[i] - peak);
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int i = 0; i < 8; ++i) sum += shared[i];
    for (int i = threadIdx.x; i < columns; i += 256) y[(size_t)blockIdx.x * columns + i] = expf(in[i] - peak) / sum;
}
torch::Tensor run(torch::Tensor x) {
    auto out = torch::empty_like(x);
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(x.size(0));
    config.blockDim = dim3(256);
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    cudaError_t error =
        cudaLaunchKernelEx(&config, softmax, (const float*)x.data_ptr<float>(), out.data_ptr<float>(), (int)x.size(1));
    TORCH_CHECK(error == cudaSuccess, cudaGetErrorString(error));
    return out;
}
"""
kernels = load_inline(
    name="corpus_h88",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return kernels.run(x)

"""Several kernels, on the current stream and on two of its own."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <vector>

__global__ void scale_kernel(const float* x, float* y, float scale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * scale;
}
__global__ void shift_kernel(const float* x, float* y, float shift, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + shift;
}

std::vector<torch::Tensor> scaled_and_shifted(torch::Tensor x, double scale, double shift) {
    at::cuda::OptionalCUDAGuard guard(device_of(x));
    const int n = x.numel(), blocks = (n + 255) / 256;
    auto scaled = torch::empty_like(x), shifted = torch::empty_like(x), both = torch::empty_like(x);
    cudaStream_t current = at::cuda::getCurrentCUDAStream();
    cudaStream_t streams[2];
    cudaEvent_t ready, done[2];
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
    C10_CUDA_CHECK(cudaEventRecord(ready, current));
    for (int i = 0; i < 2; ++i) {
        C10_CUDA_CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
        C10_CUDA_CHECK(cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming));
        C10_CUDA_CHECK(cudaStreamWaitEvent(streams[i], ready, 0));
    }
    scale_kernel<<<blocks, 256, 0, streams[0]>>>(x.data_ptr<float>(), scaled.data_ptr<float>(), scale, n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    shift_kernel<<<blocks, 256, 0, streams[1]>>>(x.data_ptr<float>(), shifted.data_ptr<float>(), shift, n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    for (int i = 0; i < 2; ++i) {
        C10_CUDA_CHECK(cudaEventRecord(done[i], streams[i]));
        C10_CUDA_CHECK(cudaStreamWaitEvent(current, done[i], 0));
        C10_CUDA_CHECK(cudaStreamDestroy(streams[i]));
        C10_CUDA_CHECK(cudaEventDestroy(done[i]));
    }
    C10_CUDA_CHECK(cudaEventDestroy(ready));
    scale_kernel<<<blocks, 256, 0, current>>>(shifted.data_ptr<float>(), both.data_ptr<float>(), scale, n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {scaled, shifted, both};
}
"""

cpp_source = """
std::vector<torch::Tensor> scaled_and_shifted(torch::Tensor x, double scale, double shift);
"""

module = load_inline(
    name="streams_module",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["scaled_and_shifted"],
)


def calls():
    return [("scaled_and_shifted", (torch.randn(100_000), 2.0, 1))]

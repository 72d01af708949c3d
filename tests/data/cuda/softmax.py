"""Softmax of rows: shared memory, warp shuffles, checks."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cfloat>

#define CHECK_CUDA(x) TORCH_CHECK(x.is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

__inline__ __device__ float warp_reduce_max(float val) {
    for (int offset = 16; offset > 0; offset /= 2) val = fmaxf(val, __shfl_down_sync(0xffffffff, val, offset));
    return val;
}
__inline__ __device__ float warp_reduce_sum(float val) {
    #pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) val += __shfl_down_sync(0xffffffff, val, offset);
    return val;
}

__global__ void softmax_kernel(const float* __restrict__ input, float* __restrict__ output, int rows, int cols) {
    extern __shared__ float sdata[];
    __shared__ float partial[32];
    __shared__ float shared_max, shared_sum;
    const int row = blockIdx.x, tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const float* in = input + static_cast<size_t>(row) * cols;
    float local_max = -FLT_MAX;
    for (int i = tid; i < cols; i += blockDim.x) {
        sdata[i] = in[i];
        local_max = fmaxf(local_max, sdata[i]);
    }
    local_max = warp_reduce_max(local_max);
    if (lane == 0) partial[warp] = local_max;
    __syncthreads();
    if (warp == 0) {
        local_max = tid < blockDim.x / 32 ? partial[lane] : -FLT_MAX;
        local_max = warp_reduce_max(local_max);
        if (lane == 0) shared_max = local_max;
    }
    __syncthreads();
    float local_sum = 0.0f;
    for (int i = tid; i < cols; i += blockDim.x) {
        sdata[i] = expf(sdata[i] - shared_max);
        local_sum += sdata[i];
    }
    local_sum = warp_reduce_sum(local_sum);
    if (lane == 0) partial[warp] = local_sum;
    __syncthreads();
    if (warp == 0) {
        local_sum = tid < blockDim.x / 32 ? partial[lane] : 0.0f;
        local_sum = warp_reduce_sum(local_sum);
        if (lane == 0) shared_sum = local_sum;
    }
    __syncthreads();
    for (int i = tid; i < cols; i += blockDim.x) output[static_cast<size_t>(row) * cols + i] = sdata[i] / shared_sum;
}

torch::Tensor softmax_forward(torch::Tensor input) {
    CHECK_INPUT(input);
    TORCH_CHECK(input.dtype() == torch::kFloat32, "input must be float32, got ", input.dtype());
    TORCH_CHECK(input.dim() == 2, "expected 2 dimensions, got ", input.sizes());
    auto output = torch::empty_like(input);
    const int rows = input.size(0), cols = input.size(1);
    softmax_kernel<<<rows, 256, cols * sizeof(float)>>>(input.data_ptr<float>(), output.data_ptr<float>(), rows, cols);
    cudaError_t err = cudaGetLastError();
    TORCH_CHECK(err == cudaSuccess, "CUDA kernel failed: ", cudaGetErrorString(err));
    return output;
}
"""

cpp_source = """
torch::Tensor softmax_forward(torch::Tensor input);
"""

module = load_inline(
    name="softmax_module",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["softmax_forward"],
)


def calls():
    x = torch.randn(1000, 1000)
    return [("softmax_forward", (given,)) for given in (x, x.t(), x.double(), x[0])]

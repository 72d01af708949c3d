import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__device__ float block_reduce(float value, float* shared, bool largest) {
    for (int step = 16; step; step /= 2) {
        const float other = __shfl_xor_sync(~0u, value, step);
        value = largest ? fmaxf(value, other) : value + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = shared[0];
    for (int i = 1; i < 8; ++i) value = largest ? fmaxf(value, shared[i]) : value + shared[i];
    return value;
}
__global__ void __cluster_dims__(4, 1, 1) softmax(const float* x, float* y, int columns) {
    __shared__ float shared[8];
    __shared__ float peak, sum;
    cg::cluster_group cluster = cg::this_cluster();
    const int part = columns / 4, rank = cluster.block_rank();
    const float* in = x + (size_t)(blockIdx.x / 4) * columns + rank * part;
    float* out = y + (size_t)(blockIdx.x / 4) * columns + rank * part;
    float largest = -INFINITY, total = 0.0f;
    for (int i = threadIdx.x; i < part; i += 256) largest = fmaxf(largest, in[i]);
    largest = block_reduce(largest, shared, true);
    if (threadIdx.x == 0) peak = largest;
    cluster.sync();
    for (int block = 0; block < 4; ++block) largest = fmaxf(largest, *cluster.map_shared_rank(&peak, block));
    float mine = 0.0f;
    for (int i = threadIdx.x; i < part; i += 256) mine += expf(in[i] - largest);
    mine = block_reduce(mine, shared, false);
    if (threadIdx.x == 0) sum = mine;
    cluster.sync();
    for (int block = 0; block < 4; ++block) total += *cluster.map_shared_rank(&sum, block);
    for (int i = threadIdx.x; i < part; i += 256) out[i] = expf(in[i] - largest) / total;
    cluster.sync();
}
torch::Tensor run(torch::Tensor x) {
    auto out = torch::empty_like(x);
    softmax<<<x.size(0) * 4, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
    cudaError_t error = cudaGetLastError();
    TORCH_CHECK(error == cudaSuccess, cudaGetErrorString(error));
    return out;
}
"""
kernels = load_inline(
    name="corpus_h84",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return kernels.run(x)

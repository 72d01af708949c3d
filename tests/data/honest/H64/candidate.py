import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
__global__ void softmax(const float* x, float* y, int columns) {
    __shared__ float tree[256];
    const float* in = x + (size_t)blockIdx.x * columns;
    float* out = y + (size_t)blockIdx.x * columns;
    float peak = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += 256) peak = fmaxf(peak, in[i]);
    tree[threadIdx.x] = peak;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) tree[threadIdx.x] = fmaxf(tree[threadIdx.x], tree[threadIdx.x + half]);
        __syncthreads();
    }
    peak = tree[0];
    __syncthreads();
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 256) sum += expf(in[i] - peak);
    tree[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) tree[threadIdx.x] += tree[threadIdx.x + half];
        __syncthreads();
    }
    for (int i = threadIdx.x; i < columns; i += 256) out[i] = expf(in[i] - peak) / tree[0];
}
torch::Tensor run(torch::Tensor x) {
    auto out = torch::empty_like(x);
    softmax<<<x.size(0), 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
    return out;
}
"""
kernels = load_inline(
    name="corpus_h64",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return kernels.run(x)

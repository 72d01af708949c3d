import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void pool(const float* x, const bool* valid, float* partial, float* y, int batch, int length, int width, int parts) {
    cg::grid_group grid = cg::this_grid();
    const int steps = (length + parts - 1) / parts;
    for (int job = blockIdx.x; job < batch * parts; job += gridDim.x) {
        const int b = job / parts, begin = job % parts * steps, end = min(begin + steps, length);
        for (int c = threadIdx.x; c < width; c += blockDim.x) {
            float sum = 0.0f;
            for (int t = begin; t < end; ++t) sum += valid[b * length + t] ? x[((size_t)b * length + t) * width + c] : 0.0f;
            partial[(size_t)job * width + c] = sum;
        }
    }
    grid.sync();
    for (int b = blockIdx.x; b < batch; b += gridDim.x) {
        float count = 0.0f;
        for (int t = 0; t < length; ++t) count += valid[b * length + t];
        for (int c = threadIdx.x; c < width; c += blockDim.x) {
            float sum = 0.0f;
            for (int p = 0; p < parts; ++p) sum += partial[((size_t)b * parts + p) * width + c];
            y[b * width + c] = sum / count;
        }
    }
}
torch::Tensor run(torch::Tensor x, torch::Tensor valid) {
    int batch = x.size(0), length = x.size(1), width = x.size(2), parts = 8;
    auto partial = torch::empty({batch, parts, width}, x.options());
    auto out = torch::empty({batch, width}, x.options());
    const float* in = x.data_ptr<float>();
    const bool* kept = valid.data_ptr<bool>();
    float *sums = partial.data_ptr<float>(), *y = out.data_ptr<float>();
    void* given[] = {&in, &kept, &sums, &y, &batch, &length, &width, &parts};
    cudaError_t error = cudaLaunchCooperativeKernel((void*)pool, dim3(128), dim3(128), given, 0, 0);
    TORCH_CHECK(error == cudaSuccess, cudaGetErrorString(error));
    return out;
}
"""
kernels = load_inline(
    name="corpus_h66",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor valid);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, x, valid):
        return kernels.run(x, valid)

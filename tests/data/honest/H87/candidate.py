import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <ATen/cuda/CUDAContext.h>
#include <cublas_v2.h>
__global__ void finish(float* y, const float* bias, int columns, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = fmaxf(y[i] + bias[i % columns], 0.0f);
}
torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    const int rows = x.size(0), depth = x.size(1), columns = weight.size(0);
    auto out = torch::empty({rows, columns}, x.options());
    const float one = 1.0f, zero = 0.0f;
    cublasStatus_t status = cublasSgemm(at::cuda::getCurrentCUDABlasHandle(), CUBLAS_OP_T, CUBLAS_OP_N, columns, rows, depth,
                                        &one, weight.data_ptr<float>(), depth, x.data_ptr<float>(), depth, &zero,
                                        out.data_ptr<float>(), columns);
    TORCH_CHECK(status == CUBLAS_STATUS_SUCCESS, "cuBLAS: ", (int)status);
    const int count = rows * columns;
    finish<<<(count + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(out.data_ptr<float>(), bias.data_ptr<float>(), columns, count);
    return out;
}
"""
kernels = load_inline(
    name="corpus_h87",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);",
    cuda_sources=CUDA,
    functions=["run"],
    extra_ldflags=["-lcublas"],
)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return kernels.run(x, self.linear.weight, self.linear.bias)

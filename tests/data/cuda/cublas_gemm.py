"""A matrix product by cuBLAS with torch's handle."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cublas_v2.h>

torch::Tensor gemm(torch::Tensor a, torch::Tensor b) {
    const int m = a.size(0), k = a.size(1), n = b.size(1);
    auto c = torch::empty({m, n}, a.options());
    const float alpha = 1.0f, beta = 0.0f;
    cublasHandle_t handle = at::cuda::getCurrentCUDABlasHandle();
    cublasStatus_t status = cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &alpha, b.data_ptr<float>(), n,
                                        a.data_ptr<float>(), k, &beta, c.data_ptr<float>(), n);
    TORCH_CHECK(status == CUBLAS_STATUS_SUCCESS, "cublasSgemm failed with ", (int)status);
    return c;
}
"""

cpp_source = """
torch::Tensor gemm(torch::Tensor a, torch::Tensor b);
"""

module = load_inline(
    name="cublas_gemm_module",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["gemm"],
    extra_ldflags=["-lcublas"],
)


def calls():
    return [("gemm", (torch.randn(64, 48), torch.randn(48, 80)))]

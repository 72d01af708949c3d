"""A module of its own making, which the lite headers leave to torch's."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void negate(const float* x, float* y, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = -x[i];
}
torch::Tensor negated(torch::Tensor x) {
    auto y = torch::empty_like(x);
    negate<<<1, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
"""

cpp_source = """
#include <torch/extension.h>
torch::Tensor negated(torch::Tensor x);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("negated", &negated, "negated"); }
"""

module = load_inline(
    name="binds_itself_module",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
)


def calls():
    return [("negated", (torch.randn(1000),))]

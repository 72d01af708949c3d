"""Direct convolution through 32-bit accessors."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <vector>

template <typename scalar_t>
__global__ void conv2d_kernel(
    const torch::PackedTensorAccessor32<scalar_t, 4, torch::RestrictPtrTraits> input,
    const torch::PackedTensorAccessor32<scalar_t, 4, torch::RestrictPtrTraits> weight,
    torch::PackedTensorAccessor32<scalar_t, 4, torch::RestrictPtrTraits> output, int pad) {
    const int ow = blockIdx.x * blockDim.x + threadIdx.x, oh = blockIdx.y * blockDim.y + threadIdx.y;
    const int n = blockIdx.z / output.size(1), oc = blockIdx.z % output.size(1);
    if (ow >= output.size(3) || oh >= output.size(2)) return;
    scalar_t acc = 0;
    for (int c = 0; c < input.size(1); ++c)
        for (int r = 0; r < weight.size(2); ++r)
            for (int s = 0; s < weight.size(3); ++s) {
                const int ih = oh + r - pad, iw = ow + s - pad;
                if (ih >= 0 && ih < input.size(2) && iw >= 0 && iw < input.size(3))
                    acc += input[n][c][ih][iw] * weight[oc][c][r][s];
            }
    output[n][oc][oh][ow] = acc;
}

torch::Tensor conv2d(torch::Tensor input, torch::Tensor weight, int64_t padding) {
    const int height = input.size(2) + 2 * padding - weight.size(2) + 1;
    const int width = input.size(3) + 2 * padding - weight.size(3) + 1;
    auto output = torch::empty({input.size(0), weight.size(0), height, width}, input.options());
    const dim3 threads(16, 16), blocks((width + 15) / 16, (height + 15) / 16, input.size(0) * weight.size(0));
    AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "conv2d", ([&] {
        conv2d_kernel<scalar_t><<<blocks, threads>>>(
            input.packed_accessor32<scalar_t, 4, torch::RestrictPtrTraits>(),
            weight.packed_accessor32<scalar_t, 4, torch::RestrictPtrTraits>(),
            output.packed_accessor32<scalar_t, 4, torch::RestrictPtrTraits>(), (int)padding);
    }));
    return output;
}
"""

cpp_source = """
torch::Tensor conv2d(torch::Tensor input, torch::Tensor weight, int64_t padding);
"""

module = load_inline(
    name="conv2d_direct_module",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["conv2d"],
)


def calls():
    return [("conv2d", (torch.randn(2, 3, 17, 19), torch.randn(4, 3, 3, 3), 1))]

// Streams, guards, checks, dispatch and packed accessors, as CUDA candidates use them.
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAException.h>
template <typename T>
__global__ void mean_kernel(const T* __restrict__ in, T* __restrict__ out, int R, int N) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= N) return;
  float sum = 0;
  for (int r = 0; r < R; ++r) sum += static_cast<float>(in[r * N + i]);
  out[i] = static_cast<T>(sum / R);
}
__global__ void add_kernel(torch::PackedTensorAccessor32<float, 2, torch::RestrictPtrTraits> a) { a[blockIdx.x][threadIdx.x] += 1.0f; }
torch::Tensor mean_cuda(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda(), "x must be CUDA");
  const at::cuda::OptionalCUDAGuard guard(device_of(x));
  auto out = torch::empty({x.size(1), x.size(2)}, x.options());
  int n = out.numel();
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "mean", [&] {
    mean_kernel<scalar_t><<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), x.size(0), n);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  add_kernel<<<1, 1>>>(x.packed_accessor32<float, 2, torch::RestrictPtrTraits>());
  return out;
}

// Streams, device guards and error checks of a CUDA build, over what libc10_cuda and libtorch_cuda export.
#pragma once

#include <cuda_runtime_api.h>

#include <kernelsweep_lite/tensor.h>

extern "C" int32_t aoti_torch_get_current_cuda_stream(int32_t device_index, void** stream);

struct cublasContext;

namespace c10::cuda {

KERNELSWEEP_IMPORT void c10_cuda_check_implementation(int32_t error, const char* filename, const char* function_name,
                                                      uint32_t line_number, bool include_device_assertions);
KERNELSWEEP_IMPORT DeviceIndex current_device();
KERNELSWEEP_IMPORT DeviceIndex device_count() noexcept;
KERNELSWEEP_IMPORT DeviceIndex ExchangeDevice(DeviceIndex device);
KERNELSWEEP_IMPORT cudaError_t MaybeSetDevice(DeviceIndex device);
KERNELSWEEP_IMPORT void device_synchronize();

}  // namespace c10::cuda

#define C10_CUDA_CHECK(EXPR)                                                                                       \
  do {                                                                                                             \
    const cudaError_t __err = EXPR;                                                                                \
    c10::cuda::c10_cuda_check_implementation(static_cast<int32_t>(__err), __FILE__, __func__,                      \
                                             static_cast<uint32_t>(__LINE__), true);                               \
  } while (0)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())

namespace c10::cuda {

class KERNELSWEEP_HIDDEN CUDAStream {
 public:
  CUDAStream(cudaStream_t stream, DeviceIndex device) : stream_(stream), device_(device) {}
  cudaStream_t stream() const { return stream_; }
  operator cudaStream_t() const { return stream_; }
  DeviceIndex device_index() const { return device_; }
  Device device() const { return Device(DeviceType::CUDA, device_); }
  void synchronize() const { C10_CUDA_CHECK(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_;
  DeviceIndex device_;
};

inline CUDAStream getCurrentCUDAStream(DeviceIndex device = -1) {
  if (device == -1) device = current_device();
  void* stream = nullptr;
  TORCH_CHECK(aoti_torch_get_current_cuda_stream(device, &stream) == 0, "no current stream on CUDA device ", +device);
  return {static_cast<cudaStream_t>(stream), device};
}

class KERNELSWEEP_HIDDEN CUDAGuard {
 public:
  explicit CUDAGuard(DeviceIndex device) : CUDAGuard(Device(DeviceType::CUDA, device)) {}
  explicit CUDAGuard(Device device) {
    TORCH_CHECK(device.is_cuda(), "Expected a CUDA device, but got ", device);
    original_ = ExchangeDevice(device.has_index() ? device.index() : current_device());
  }
  CUDAGuard(const CUDAGuard&) = delete;
  CUDAGuard& operator=(const CUDAGuard&) = delete;
  ~CUDAGuard() { (void)MaybeSetDevice(original_); }
  Device original_device() const { return Device(DeviceType::CUDA, original_); }

 private:
  DeviceIndex original_ = -1;
};

class KERNELSWEEP_HIDDEN OptionalCUDAGuard {
 public:
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device> device) {
    if (device) guard_.emplace(*device);
  }
  explicit OptionalCUDAGuard(DeviceIndex device) { guard_.emplace(device); }

 private:
  std::optional<CUDAGuard> guard_;
};

}  // namespace c10::cuda

namespace at {

inline std::optional<Device> device_of(const Tensor& tensor) {
  return tensor.defined() ? std::optional<Device>(tensor.device()) : std::nullopt;
}

namespace cuda {
using c10::cuda::CUDAGuard;
using c10::cuda::CUDAStream;
using c10::cuda::current_device;
using c10::cuda::device_count;
using c10::cuda::getCurrentCUDAStream;
using c10::cuda::OptionalCUDAGuard;
KERNELSWEEP_IMPORT cudaDeviceProp* getCurrentDeviceProperties();
KERNELSWEEP_IMPORT cublasContext* getCurrentCUDABlasHandle();
}  // namespace cuda

}  // namespace at

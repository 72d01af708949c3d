// Reads memory as fast as the device can: for DRAM once over much, for the L2 cache many times over little.

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

namespace {

// 1536 threads on a processor, which the smallest ones hold too, each with four loads of 16 bytes under way.
constexpr int kThreads = 256;
constexpr int kBlocksPerProcessor = 6;
constexpr int kLoads = 4;

char message[256] = "";

#define CHECK(call)                                                                                     \
  do {                                                                                                  \
    cudaError_t error = (call);                                                                         \
    if (error != cudaSuccess) {                                                                         \
      std::snprintf(message, sizeof message, "%s: %s", cudaGetErrorName(error), cudaGetErrorString(error)); \
      return 1;                                                                                         \
    }                                                                                                   \
  } while (0)

// Past the L1 cache (.cg), and as often as it is written here (volatile).
__device__ __forceinline__ uint4 load(const uint4* place) {
  uint4 value;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(place));
  return value;
}

__global__ void __launch_bounds__(kThreads, kBlocksPerProcessor)
    read_all(const uint4* data, size_t count, int passes, uint32_t* sink) {
  // The passes follow each other without a seam, so that four loads are under way however small the data is.
  const size_t step = size_t(gridDim.x) * blockDim.x;
  const size_t total = count * passes;
  const size_t stride = step % count;
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  size_t place = i % count;
  uint32_t sum = 0;
  for (; i + (kLoads - 1) * step < total; i += kLoads * step) {
    uint4 values[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      values[k] = load(data + place);
      place += stride;
      if (place >= count) place -= count;
    }
#pragma unroll
    for (int k = 0; k < kLoads; ++k) sum += values[k].x ^ values[k].y ^ values[k].z ^ values[k].w;
  }
  for (; i < total; i += step) {
    uint4 value = load(data + place);
    sum += value.x ^ value.y ^ value.z ^ value.w;
    place += stride;
    if (place >= count) place -= count;
  }
  if (sum == 0x9e3779b9u) *sink = sum;
}

}  // namespace

extern "C" {

const char* ks_read_error() { return message; }

// Queue reading all of `bytes` at `data`, `passes` times, on a stream of the current device. sink: four bytes.
int ks_read(const void* data, size_t bytes, int passes, void* sink, void* stream) {
  int device = 0, processors = 0;
  CHECK(cudaGetDevice(&device));
  CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  read_all<<<kBlocksPerProcessor * processors, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const uint4*>(data), bytes / sizeof(uint4), passes, static_cast<uint32_t*>(sink));
  CHECK(cudaGetLastError());
  return 0;
}
}

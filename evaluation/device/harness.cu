// What surrounds one call of a candidate on the device. Loaded, and all that it needs resolved, before the candidate is.
//
// A gated call, all in the default stream:
//   write sweep and read sweep   nothing of the inputs, and no dirty line, is left in the L2 cache
//   gate                         occupies every thread of the device until the judge opens it
//   start event, the call, end event, an event that covers every stream of the context
//   copies of the outputs, then a mark in the page
// The host has queued all of it while the gate is closed, and is stopped while it runs: no host time is in between.

#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <ctime>

namespace {

constexpr int kSlots = 64;
constexpr int kThreads = 1024;
constexpr int kBlocksPerProcessor = 2;
constexpr double kCloseLimitSeconds = 0.5;

// One word each on a line of its own, in memory of the host that judge, worker and device share.
constexpr int kWordsPerLine = 32;
enum Line { kOpen = 0, kClosed = 1, kFinished = 2, kExpired = 3 };

using OfContext = CUresult (*)(CUcontext, CUevent);
using CurrentContext = CUresult (*)(CUcontext*);

struct Harness {
  volatile uint32_t* page = nullptr;
  uint32_t* device_page = nullptr;
  uint32_t* counters = nullptr;
  uint4* dirty = nullptr;
  uint4* clean = nullptr;
  size_t dirty_vectors = 0;
  size_t clean_vectors = 0;
  int processors = 0;
  long long most_cycles = 0;
  CUcontext context = nullptr;
  OfContext record_context = nullptr;
  OfContext wait_context = nullptr;
  cudaEvent_t start[kSlots], end[kSlots], all[kSlots];
};

Harness harness;
char message[256] = "";

int failed(const char* what, cudaError_t error) {
  std::snprintf(message, sizeof message, "%s: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
  return 1;
}

#define CHECK(call)                                        \
  do {                                                     \
    cudaError_t error = (call);                            \
    if (error != cudaSuccess) return failed(#call, error); \
  } while (0)

__global__ void write_sweep(uint4* data, size_t count, uint32_t value) {
  size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    data[i] = make_uint4(value, value, value, value);
}

__global__ void read_sweep(const uint4* data, size_t count, uint32_t* sink) {
  size_t step = size_t(gridDim.x) * blockDim.x;
  uint32_t sum = 0;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    uint4 vector = data[i];
    sum += vector.x ^ vector.y ^ vector.z ^ vector.w;
  }
  if (sum == 0x9e3779b9u) *sink = sum;
}

// All blocks are resident together, and leave no thread for anybody else's. counters: arrived, released.
__global__ void __launch_bounds__(kThreads, kBlocksPerProcessor)
    gate(volatile uint32_t* page, uint32_t* counters, uint32_t ticket, long long most_cycles) {
  if (threadIdx.x == 0) {
    volatile uint32_t* arrived = counters;
    volatile uint32_t* released = counters + 1;
    atomicAdd(counters, 1);
    if (blockIdx.x == 0) {
      long long begin = clock64();
      bool expired = false;
      while (*arrived < gridDim.x && !expired) expired = clock64() - begin > most_cycles;
      page[kClosed * kWordsPerLine] = ticket;
      __threadfence_system();
      while (int32_t(page[kOpen * kWordsPerLine] - ticket) < 0 && !expired) expired = clock64() - begin > most_cycles;
      if (expired) {
        page[kExpired * kWordsPerLine] = ticket;
        __threadfence_system();
      }
      *released = 1;
    } else {
      while (*released == 0) __nanosleep(32);
    }
  }
  __syncthreads();
}

__global__ void mark(volatile uint32_t* page, uint32_t ticket) {
  page[kFinished * kWordsPerLine] = ticket;
  __threadfence_system();
}

__global__ void nothing() {}

int of_context(const char* what, OfContext call, cudaEvent_t event) {
  CUresult result = call(harness.context, reinterpret_cast<CUevent>(event));
  if (result == CUDA_SUCCESS) return 0;
  std::snprintf(message, sizeof message, "%s failed with CUDA error %d", what, int(result));
  return 1;
}

double now_seconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

}  // namespace

extern "C" {

const char* ks_error() { return message; }

// Prepare for calls. page: page-aligned memory of the host. most_ms: how long a gate stays closed at most.
int ks_open(void* page, size_t page_bytes, double most_ms) {
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  int kilohertz = 0;
  CHECK(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, 0));
  harness.processors = properties.multiProcessorCount;
  harness.most_cycles = static_cast<long long>(most_ms * kilohertz);
  CHECK(cudaHostRegister(page, page_bytes, cudaHostRegisterMapped));
  harness.page = static_cast<volatile uint32_t*>(page);
  void* mapped = nullptr;
  CHECK(cudaHostGetDevicePointer(&mapped, page, 0));
  harness.device_page = static_cast<uint32_t*>(mapped);
  harness.dirty_vectors = 3 * size_t(properties.l2CacheSize) / sizeof(uint4);
  harness.clean_vectors = 2 * size_t(properties.l2CacheSize) / sizeof(uint4);
  CHECK(cudaMalloc(&harness.counters, 4 * sizeof(uint32_t)));
  CHECK(cudaMalloc(&harness.dirty, harness.dirty_vectors * sizeof(uint4)));
  CHECK(cudaMalloc(&harness.clean, harness.clean_vectors * sizeof(uint4)));
  CHECK(cudaMemset(harness.clean, 1, harness.clean_vectors * sizeof(uint4)));
  for (int slot = 0; slot < kSlots; ++slot) {
    CHECK(cudaEventCreate(&harness.start[slot]));
    CHECK(cudaEventCreate(&harness.end[slot]));
    CHECK(cudaEventCreate(&harness.all[slot]));
  }
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  auto current = driver ? reinterpret_cast<CurrentContext>(dlsym(driver, "cuCtxGetCurrent")) : nullptr;
  harness.record_context = driver ? reinterpret_cast<OfContext>(dlsym(driver, "cuCtxRecordEvent")) : nullptr;
  harness.wait_context = driver ? reinterpret_cast<OfContext>(dlsym(driver, "cuCtxWaitEvent")) : nullptr;
  if (current == nullptr || harness.record_context == nullptr || harness.wait_context == nullptr ||
      current(&harness.context) != CUDA_SUCCESS) {
    std::snprintf(message, sizeof message, "this driver has no events of a context; install driver 555 or newer");
    return 1;
  }
  // Loaded now: a kernel that is loaded at its first launch would wait for the gate.
  write_sweep<<<1, 32>>>(harness.dirty, 1, 0);
  read_sweep<<<1, 32>>>(harness.clean, 1, harness.counters + 2);
  mark<<<1, 1>>>(harness.device_page, 0);
  nothing<<<1, 32>>>();
  harness.page[kOpen * kWordsPerLine] = 0;
  CHECK(cudaMemset(harness.counters, 0, 4 * sizeof(uint32_t)));
  gate<<<kBlocksPerProcessor * harness.processors, kThreads>>>(harness.device_page, harness.counters, 0,
                                                               harness.most_cycles);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  return 0;
}

int ks_flush() {
  CHECK(cudaCtxResetPersistingL2Cache());
  int blocks = 8 * harness.processors;
  write_sweep<<<blocks, 256>>>(harness.dirty, harness.dirty_vectors, 7);
  read_sweep<<<blocks, 256>>>(harness.clean, harness.clean_vectors, harness.counters + 2);
  CHECK(cudaGetLastError());
  return 0;
}

// Flush, close the gate and wait until it is closed; then begin the span of this slot, for which every stream waits.
int ks_begin(uint32_t ticket, int slot) {
  if (ks_flush()) return 1;
  CHECK(cudaMemsetAsync(harness.counters, 0, 2 * sizeof(uint32_t)));
  gate<<<kBlocksPerProcessor * harness.processors, kThreads>>>(harness.device_page, harness.counters, ticket,
                                                               harness.most_cycles);
  CHECK(cudaGetLastError());
  double deadline = now_seconds() + kCloseLimitSeconds;
  while (harness.page[kClosed * kWordsPerLine] != ticket) {
    if (now_seconds() > deadline) {
      CHECK(cudaDeviceSynchronize());
      break;
    }
  }
  CHECK(cudaEventRecord(harness.start[slot]));
  return of_context("cuCtxWaitEvent", harness.wait_context, harness.start[slot]);
}

// End the span of this slot: once for the default stream, once for all; what is queued next waits for both.
int ks_end(int slot) {
  CHECK(cudaEventRecord(harness.end[slot]));
  if (of_context("cuCtxRecordEvent", harness.record_context, harness.all[slot])) return 1;
  CHECK(cudaStreamWaitEvent(nullptr, harness.all[slot], 0));
  return 0;
}

int ks_mark(uint32_t ticket) {
  mark<<<1, 1>>>(harness.device_page, ticket);
  CHECK(cudaGetLastError());
  return 0;
}

// A kernel that does nothing: what a span costs by itself.
int ks_nothing() {
  nothing<<<1, 32>>>();
  CHECK(cudaGetLastError());
  return 0;
}

int ks_wait() {
  CHECK(cudaDeviceSynchronize());
  return 0;
}

// Milliseconds of the first `count` spans: until the default stream, and until every stream was done.
int ks_spans(int count, float* stream_ms, float* all_ms) {
  CHECK(cudaDeviceSynchronize());
  for (int slot = 0; slot < count; ++slot) {
    CHECK(cudaEventElapsedTime(stream_ms + slot, harness.start[slot], harness.end[slot]));
    CHECK(cudaEventElapsedTime(all_ms + slot, harness.start[slot], harness.all[slot]));
  }
  return 0;
}

}  // extern "C"

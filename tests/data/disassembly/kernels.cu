#include <cuda_fp16.h>

namespace {

// More values live than 32 registers hold.
template <int N>
__global__ void spilling(const float* x, float* y) {
    __shared__ float tile[256];
    float a[N];
#pragma unroll
    for (int i = 0; i < N; ++i) a[i] = x[i * 1024 + threadIdx.x];
    tile[threadIdx.x] = a[0];
    __syncthreads();
    float sum = tile[255 - threadIdx.x];
#pragma unroll
    for (int i = 0; i < N; ++i) sum = fmaf(a[i], a[(i * 7 + 3) % N], sum);
#pragma unroll
    for (int i = 0; i < N; ++i) y[i * 1024 + threadIdx.x] = a[i] * sum;
}

}  // namespace

void launch(const float* x, float* y) { spilling<48><<<1, 256>>>(x, y); }

extern "C" __global__ void product(const unsigned* a, const unsigned* b, float* d) {
    float c[4] = {0, 0, 0, 0};
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    for (int i = 0; i < 4; ++i) d[threadIdx.x * 4 + i] = c[i];
}

// Its multiply-add is an HFMA2.MMA, which no tensor core executes.
extern "C" __global__ void half_pairs(const __half2* x, __half2* y, __half2 a) {
    int i = threadIdx.x;
    y[i] = __hfma2(a, x[i], y[i]);
}

extern "C" __global__ void various(const float4* x, const double* z, int* counts, float* y) {
    float4 v = x[threadIdx.x];
    double d = fma(z[threadIdx.x], 2.0, 1.0);
    atomicAdd(counts, 1);
    y[threadIdx.x] = expf(v.x + v.y) + v.z * v.w + static_cast<float>(d);
}

extern "C" __global__ void warpgroup(const unsigned long long* tiles, float* d) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    float c[4] = {0, 0, 0, 0};
    asm volatile("wgmma.fence.sync.aligned;");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "l"(tiles[0]), "l"(tiles[1]));
    asm volatile("wgmma.commit_group.sync.aligned;");
    asm volatile("wgmma.wait_group.sync.aligned 0;");
    for (int i = 0; i < 4; ++i) d[threadIdx.x * 4 + i] = c[i];
#endif
}

// Lite: the part of torch that kernels use; see kernelsweep_lite/core.h.
#pragma once
#include <kernelsweep_lite/cuda.h>
#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)

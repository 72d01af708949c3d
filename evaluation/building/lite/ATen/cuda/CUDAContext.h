// Lite: the part of torch that kernels use; see kernelsweep_lite/core.h.
#pragma once
#include <ATen/cuda/Exceptions.h>
#if __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#endif

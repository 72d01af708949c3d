// Lite: the part of torch that kernels use; see kernelsweep_lite/core.h.
#pragma once
#include <kernelsweep_lite/tensor.h>

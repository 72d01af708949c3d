// Lite: the part of torch that kernels use; see kernelsweep_lite/core.h.
#pragma once
#define KERNELSWEEP_LITE_EXTENSION 1
#include <Python.h>

#include <kernelsweep_lite/cpp.h>

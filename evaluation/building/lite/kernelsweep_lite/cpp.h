// What <torch/extension.h> brings along for C++ sources beside tensors.
#pragma once

#include <kernelsweep_lite/tensor.h>

// Named by `namespace py = pybind11;`; whoever uses what is in it gets the stock headers.
namespace pybind11 {}
namespace py = pybind11;

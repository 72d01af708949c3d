// Slim: torch/python.h without bindings of torch::nn modules, for units that name something of Python's.
#pragma once
#include <torch/types.h>
#ifdef KERNELSWEEP_SLIM_PYTHON
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/python_headers.h>
#include <torch/csrc/utils/pybind.h>
#endif

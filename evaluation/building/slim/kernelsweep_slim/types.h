// Slim: torch's own classes, operators and factories, as far as the sources of a request name them; see ../../slim.py.
#pragma once

// ATen's headers then include the operators that they use, not all of them.
#ifndef AT_PER_OPERATOR_HEADERS
#error "the slim headers need -DAT_PER_OPERATOR_HEADERS"
#endif

// Read by this folder's ATen/Context.h, DeviceGuard.h and TensorUtils.h.
#define KERNELSWEEP_SLIM_OPERATORS 1
#include <ATen/core/Tensor.h>

#include <ATen/TensorOperators.h>
#include <kernelsweep_slim_named/operators.h>
#undef KERNELSWEEP_SLIM_OPERATORS

#include <ATen/Device.h>
#include <ATen/DimVector.h>
#include <ATen/Dispatch.h>
#include <ATen/Formatting.h>
#include <ATen/TensorGeometry.h>
#include <ATen/core/ATenGeneral.h>
#include <ATen/core/Generator.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Scalar.h>
#include <ATen/core/UnsafeFromTH.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/Layout.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

// Of the standard library what comes with torch/extension.h: the C forms, because of the overloads that they add.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include <algorithm>
#include <bitset>
#include <condition_variable>
#include <functional>
#include <list>
#include <optional>
#include <queue>
#include <stack>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_set>
#include <vector>

namespace torch {
using at::MemoryFormat;
using Deleter = std::function<void(void*)>;
} // namespace torch

namespace kernelsweep_slim {
// torch::autograd::make_variable for a new tensor, which nobody else keeps: the factories below give it no other.
inline at::Tensor make_variable(at::Tensor data, bool requires_grad) {
  if (data.defined()) data.set_requires_grad(requires_grad);
  return data;
}
} // namespace kernelsweep_slim

// Of torch/csrc/autograd/generated/variable_factories.h.
#include <kernelsweep_slim_named/factories.h>

// As in torch/types.h.
namespace torch {
using namespace at;
using std::nullopt;
using std::optional;
using Dtype = at::ScalarType;

constexpr auto kUInt8 = at::kByte;
constexpr auto kInt8 = at::kChar;
constexpr auto kInt16 = at::kShort;
constexpr auto kInt32 = at::kInt;
constexpr auto kInt64 = at::kLong;
constexpr auto kUInt16 = at::kUInt16;
constexpr auto kUInt32 = at::kUInt32;
constexpr auto kUInt64 = at::kUInt64;
constexpr auto kFloat16 = at::kHalf;
constexpr auto kFloat32 = at::kFloat;
constexpr auto kFloat64 = at::kDouble;
constexpr auto kU8 = kUInt8;
constexpr auto kU16 = kUInt16;
constexpr auto kU32 = kUInt32;
constexpr auto kU64 = kUInt64;
constexpr auto kI8 = kInt8;
constexpr auto kI16 = kInt16;
constexpr auto kI32 = kInt32;
constexpr auto kI64 = kInt64;
constexpr auto kF16 = kFloat16;
constexpr auto kF32 = kFloat32;
constexpr auto kF64 = kFloat64;
} // namespace torch

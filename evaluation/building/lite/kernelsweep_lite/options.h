// TensorOptions, and the names that torch:: takes from at:: and c10::.
#pragma once

#include <kernelsweep_lite/core.h>

namespace c10 {

// Which properties a new tensor shall have; an absent one is torch's default.
struct KERNELSWEEP_HIDDEN TensorOptions {
  TensorOptions() = default;
  TensorOptions(Device device) : device_(device) {}
  TensorOptions(DeviceType type) : device_(Device(type)) {}
  TensorOptions(ScalarType dtype) : dtype_(dtype) {}
  TensorOptions(caffe2::TypeMeta dtype) : dtype_(dtype.toScalarType()) {}
  TensorOptions(Layout layout) : layout_(layout) {}
  TensorOptions(MemoryFormat format) : format_(format) {}

  [[nodiscard]] TensorOptions dtype(ScalarType dtype) const { return with(&TensorOptions::dtype_, dtype); }
  [[nodiscard]] TensorOptions dtype(caffe2::TypeMeta dtype) const { return this->dtype(dtype.toScalarType()); }
  [[nodiscard]] TensorOptions device(Device device) const { return with(&TensorOptions::device_, device); }
  [[nodiscard]] TensorOptions device(DeviceType type, DeviceIndex index = -1) const {
    return device(Device(type, index));
  }
  [[nodiscard]] TensorOptions layout(Layout layout) const { return with(&TensorOptions::layout_, layout); }
  [[nodiscard]] TensorOptions pinned_memory(bool pinned) const { return with(&TensorOptions::pinned_, pinned); }
  [[nodiscard]] TensorOptions memory_format(MemoryFormat format) const { return with(&TensorOptions::format_, format); }
  [[nodiscard]] TensorOptions requires_grad(bool value) const { return with(&TensorOptions::requires_grad_, value); }

  bool requires_grad() const { return requires_grad_.value_or(false); }
  std::optional<ScalarType> dtype_opt() const { return dtype_; }
  std::optional<Device> device_opt() const { return device_; }
  std::optional<Layout> layout_opt() const { return layout_; }
  std::optional<bool> pinned_memory_opt() const { return pinned_; }
  std::optional<MemoryFormat> memory_format_opt() const { return format_; }

 private:
  template <typename T>
  TensorOptions with(std::optional<T> TensorOptions::*member, T value) const {
    TensorOptions copy = *this;
    copy.*member = value;
    return copy;
  }
  std::optional<ScalarType> dtype_;
  std::optional<Device> device_;
  std::optional<Layout> layout_;
  std::optional<bool> pinned_;
  std::optional<bool> requires_grad_;
  std::optional<MemoryFormat> format_;
};

// A memory format may be given by the options or by itself, not twice.
inline std::optional<MemoryFormat> only_format(const TensorOptions& options, std::optional<MemoryFormat> format) {
  TORCH_CHECK(!options.memory_format_opt() || !format,
              "Cannot set memory_format both in TensorOptions and explicit argument; please delete "
              "the redundant setter.");
  return format ? format : options.memory_format_opt();
}

inline TensorOptions dtype(ScalarType dtype) { return TensorOptions(dtype); }
inline TensorOptions dtype(caffe2::TypeMeta dtype) { return TensorOptions(dtype); }
inline TensorOptions device(Device device) { return TensorOptions(device); }
inline TensorOptions layout(Layout layout) { return TensorOptions(layout); }
inline TensorOptions requires_grad(bool value = true) { return TensorOptions().requires_grad(value); }

}  // namespace c10

namespace at {
using namespace c10;
using caffe2::TypeMeta;
}  // namespace at

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
constexpr auto kFloat16 = at::kHalf;
constexpr auto kFloat32 = at::kFloat;
constexpr auto kFloat64 = at::kDouble;
constexpr auto kU8 = kUInt8;
constexpr auto kI8 = kInt8;
constexpr auto kI16 = kInt16;
constexpr auto kI32 = kInt32;
constexpr auto kI64 = kInt64;
constexpr auto kF16 = kFloat16;
constexpr auto kF32 = kFloat32;
constexpr auto kF64 = kFloat64;
}  // namespace torch

// What the lite headers need of c10, in a few hundred lines that the compilers read quickly.
//
// Names, layouts and values are torch's own (they are part of its ABI), what is left out is not needed by most
// kernels. Three macros, set by the builder after a look at the names in the sources, add what costs time:
// KERNELSWEEP_LITE_TORCH  torch's own headers instead of this one: accessors, parallel_for, complex numbers, ...
// KERNELSWEEP_LITE_STD    the standard headers that torch's bring along, beside the cheap ones
// KERNELSWEEP_LITE_HALF   Half and BFloat16, which bring CUDA's own
#pragma once

#include <cfloat>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <optional>
#include <vector>

#ifdef KERNELSWEEP_LITE_HALF
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>
#endif

namespace c10 {

using std::nullopt;
using std::optional;

// Number, name, C++ type (void where the lite headers have none) and bytes of every element type.
#define KERNELSWEEP_SCALAR_TYPES(_)                                                                                    \
  _(0, Byte, uint8_t, 1) _(1, Char, int8_t, 1) _(2, Short, int16_t, 2) _(3, Int, int, 4) _(4, Long, int64_t, 8)        \
  _(5, Half, Half, 2) _(6, Float, float, 4) _(7, Double, double, 8) _(8, ComplexHalf, void, 4)                         \
  _(9, ComplexFloat, void, 8) _(10, ComplexDouble, void, 16) _(11, Bool, bool, 1) _(15, BFloat16, BFloat16, 2)         \
  _(23, Float8_e5m2, void, 1) _(24, Float8_e4m3fn, void, 1) _(25, Float8_e5m2fnuz, void, 1)                            \
  _(26, Float8_e4m3fnuz, void, 1) _(27, UInt16, uint16_t, 2) _(28, UInt32, uint32_t, 4) _(29, UInt64, uint64_t, 8)

#ifndef KERNELSWEEP_LITE_HALF
struct Half;
struct BFloat16;
#endif

#define KERNELSWEEP_ENUMERATOR(number, name, type, bytes) name = number,
enum class ScalarType : int8_t { KERNELSWEEP_SCALAR_TYPES(KERNELSWEEP_ENUMERATOR) };
#undef KERNELSWEEP_ENUMERATOR
#define KERNELSWEEP_CONSTANT(number, name, type, bytes) constexpr ScalarType k##name = ScalarType::name;
KERNELSWEEP_SCALAR_TYPES(KERNELSWEEP_CONSTANT)
#undef KERNELSWEEP_CONSTANT

enum class Layout : int8_t { Strided, Sparse, SparseCsr, Mkldnn, SparseCsc, SparseBsr, SparseBsc, Jagged };
constexpr auto kStrided = Layout::Strided;

enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

enum class DeviceType : int8_t { CPU = 0, CUDA = 1, HIP = 6, XLA = 9, XPU = 12, MPS = 13, Meta = 14 };
constexpr auto kCPU = DeviceType::CPU;
constexpr auto kCUDA = DeviceType::CUDA;
constexpr auto kMeta = DeviceType::Meta;
using DeviceIndex = int8_t;

namespace impl {
template <ScalarType type>
struct ScalarTypeToCPPType;
#define KERNELSWEEP_CPP_TYPE(number, name, cpp_type, bytes) \
  template <>                                               \
  struct ScalarTypeToCPPType<ScalarType::name> {            \
    using type = cpp_type;                                  \
  };
KERNELSWEEP_SCALAR_TYPES(KERNELSWEEP_CPP_TYPE)
#undef KERNELSWEEP_CPP_TYPE
template <ScalarType type>
using ScalarTypeToCPPTypeT = typename ScalarTypeToCPPType<type>::type;
}  // namespace impl

template <typename T>
struct CppTypeToScalarType;
#define KERNELSWEEP_SCALAR_TYPE(cpp_type, name)                \
  template <>                                                  \
  struct CppTypeToScalarType<cpp_type> {                       \
    static constexpr ScalarType value = ScalarType::name;      \
  };
KERNELSWEEP_SCALAR_TYPE(uint8_t, Byte)
KERNELSWEEP_SCALAR_TYPE(int8_t, Char)
KERNELSWEEP_SCALAR_TYPE(int16_t, Short)
KERNELSWEEP_SCALAR_TYPE(int, Int)
KERNELSWEEP_SCALAR_TYPE(int64_t, Long)
KERNELSWEEP_SCALAR_TYPE(float, Float)
KERNELSWEEP_SCALAR_TYPE(double, Double)
KERNELSWEEP_SCALAR_TYPE(bool, Bool)
KERNELSWEEP_SCALAR_TYPE(Half, Half)
KERNELSWEEP_SCALAR_TYPE(BFloat16, BFloat16)
#undef KERNELSWEEP_SCALAR_TYPE

inline const char* toString(ScalarType type) {
#define KERNELSWEEP_NAME(number, name, cpp_type, bytes) \
  case ScalarType::name: return #name;
  switch (type) {
    KERNELSWEEP_SCALAR_TYPES(KERNELSWEEP_NAME)
    default: return "UNKNOWN_SCALAR";
  }
#undef KERNELSWEEP_NAME
}

template <typename T>
class ArrayRef final {
 public:
  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T& element) : data_(&element), length_(1) {}
  constexpr ArrayRef(const T* data, size_t length) : data_(data), length_(length) {}
  constexpr ArrayRef(const T* begin, const T* end) : data_(begin), length_(end - begin) {}
  constexpr ArrayRef(const std::initializer_list<T>& list)
      : data_(list.size() ? list.begin() : nullptr), length_(list.size()) {}
  template <size_t N>
  constexpr ArrayRef(const T (&array)[N]) : data_(array), length_(N) {}
  template <typename Container, typename Data = decltype(std::declval<const Container&>().data()),
            typename = std::enable_if_t<std::is_same_v<Data, const T*> || std::is_same_v<Data, T*>>>
  ArrayRef(const Container& container) : data_(container.data()), length_(container.size()) {}
  template <typename U>
  std::enable_if_t<std::is_same_v<U, T>, ArrayRef<T>>& operator=(U&&) = delete;
  template <typename U>
  std::enable_if_t<std::is_same_v<U, T>, ArrayRef<T>>& operator=(std::initializer_list<U>) = delete;

  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + length_; }
  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return length_; }
  constexpr bool empty() const { return length_ == 0; }
  constexpr const T& operator[](size_t index) const { return data_[index]; }
  constexpr const T& front() const { return data_[0]; }
  constexpr const T& back() const { return data_[length_ - 1]; }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }
  friend bool operator==(ArrayRef left, ArrayRef right) {
    if (left.length_ != right.length_) return false;
    for (size_t i = 0; i < left.length_; ++i) {
      if (!(left[i] == right[i])) return false;
    }
    return true;
  }
  friend bool operator!=(ArrayRef left, ArrayRef right) { return !(left == right); }

 private:
  const T* data_ = nullptr;
  size_t length_ = 0;
};
using IntArrayRef = ArrayRef<int64_t>;

template <typename T>
class OptionalArrayRef final {
 public:
  constexpr OptionalArrayRef() = default;
  constexpr OptionalArrayRef(std::nullopt_t) {}
  constexpr OptionalArrayRef(const std::optional<ArrayRef<T>>& values) : values_(values) {}
  constexpr OptionalArrayRef(const T& value) : values_(value) {}
  constexpr OptionalArrayRef(const std::initializer_list<T>& values) : values_(ArrayRef<T>(values)) {}
  template <typename U, typename = std::enable_if_t<!std::is_same_v<std::decay_t<U>, OptionalArrayRef> &&
                                                    std::is_convertible_v<U&&, ArrayRef<T>> &&
                                                    !std::is_convertible_v<U&&, T>>>
  constexpr OptionalArrayRef(U&& values) : values_(std::forward<U>(values)) {}
  constexpr bool has_value() const { return values_.has_value(); }
  constexpr const ArrayRef<T>& value() const { return values_.value(); }

 private:
  std::optional<ArrayRef<T>> values_;
};
using OptionalIntArrayRef = OptionalArrayRef<int64_t>;

}  // namespace c10

#include <kernelsweep_lite/check.h>

namespace c10 {

inline size_t elementSize(ScalarType type) {
#define KERNELSWEEP_BYTES(number, name, cpp_type, bytes) \
  case ScalarType::name: return bytes;
  switch (type) {
    KERNELSWEEP_SCALAR_TYPES(KERNELSWEEP_BYTES)
    default: TORCH_CHECK(false, "Unknown ScalarType");
  }
#undef KERNELSWEEP_BYTES
  return 0;
}
inline bool isIntegralType(ScalarType type, bool with_bool) {
  return type <= kLong || (type >= kUInt16 && type <= kUInt64) || (with_bool && type == kBool);
}
inline bool isFloatingType(ScalarType type) {
  return (type >= kHalf && type <= kDouble) || type == kBFloat16 || (type >= kFloat8_e5m2 && type <= kFloat8_e4m3fnuz);
}

struct Device final {
  using Type = DeviceType;
  Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
  bool operator==(const Device& other) const { return type_ == other.type_ && index_ == other.index_; }
  bool operator!=(const Device& other) const { return !(*this == other); }
  DeviceType type() const { return type_; }
  DeviceIndex index() const { return index_; }
  bool has_index() const { return index_ != -1; }
  bool is_cuda() const { return type_ == DeviceType::CUDA; }
  bool is_cpu() const { return type_ == DeviceType::CPU; }

 private:
  DeviceType type_;
  DeviceIndex index_;
};

}  // namespace c10

namespace at {
using namespace c10;
}  // namespace at

#include <kernelsweep_lite/dispatch.h>

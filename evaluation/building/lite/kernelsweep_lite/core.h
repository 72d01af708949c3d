// What an operator's signature is made of, without the stock headers that take most of the compiler's time.
//
// The types of this folder have the mangled names and the layouts of torch's own, so that calls go straight into
// libtorch. The linker checks every name and signature (-z defs); verify() in bind.h checks the layouts whenever a
// module is imported. What is missing does not compile, and then the stock headers build the candidate.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#ifdef KERNELSWEEP_LITE_TORCH
#include <kernelsweep_lite/torch_base.h>
#else
#include <kernelsweep_lite/base.h>
#endif

// Inline members stay inside the candidate's own object; members that libtorch exports are looked up there.
#define KERNELSWEEP_HIDDEN __attribute__((visibility("hidden")))
#define KERNELSWEEP_IMPORT __attribute__((visibility("default")))

namespace c10 {

class DispatchKeySet;
class SymInt;
using SymIntArrayRef = ArrayRef<SymInt>;

// A plain integer: symbolic sizes are left to the stock headers. Torch's own has a destructor and therefore travels
// by invisible reference, so this one has too.
class KERNELSWEEP_HIDDEN SymInt final {
 public:
  SymInt(int64_t value) : value_(value) {
    TORCH_CHECK(value > -(int64_t{1} << 62), "size or index ", value, " is too small");
  }
  SymInt(const SymInt& other) : value_(other.value_) {}
  SymInt& operator=(const SymInt&) = default;
  ~SymInt() {}

 private:
  int64_t value_;
};

inline SymIntArrayRef symbolic(IntArrayRef values) {
  for (int64_t value : values) (void)SymInt(value);
  return {reinterpret_cast<const SymInt*>(values.data()), values.size()};
}

// A number on its way into an operator: double, integer or bool, kept as torch keeps them.
class KERNELSWEEP_HIDDEN Scalar final {
 public:
  Scalar() : Scalar(int64_t{0}) {}
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Scalar(T value) {
    static_assert(sizeof(T) <= 8 && !(std::is_unsigned_v<T> && sizeof(T) == 8), "left to the stock headers");
    if constexpr (std::is_floating_point_v<T>) {
      tag_ = Tag::real;
      value_.real = value;
    } else {
      tag_ = std::is_same_v<T, bool> ? Tag::boolean : Tag::integer;
      value_.integer = value;
    }
  }
#if defined(KERNELSWEEP_LITE_HALF) || defined(KERNELSWEEP_LITE_TORCH)
  Scalar(Half value) : Scalar(static_cast<float>(value)) {}
  Scalar(BFloat16 value) : Scalar(static_cast<float>(value)) {}
#endif
  Scalar(const Scalar& other) : tag_(other.tag_), value_(other.value_) {}
  Scalar& operator=(const Scalar&) = default;
  ~Scalar() {}
  KERNELSWEEP_IMPORT Scalar operator-() const;
  bool holds(double value) const { return tag_ == Tag::real && value_.real == value; }
  bool holds(int64_t value) const { return tag_ == Tag::integer && value_.integer == value; }

 private:
  enum class Tag { real, integer, unsigned_integer, complex, boolean };
  union Value {
    double real;
    int64_t integer;
    alignas(16) double complex[2];
  };
  Tag tag_;
  Value value_{};
};

}  // namespace c10

namespace caffe2 {

// What Tensor::dtype() gives: compares with a ScalarType and prints the C++ name of the element.
class KERNELSWEEP_HIDDEN TypeMeta final {
 public:
  explicit TypeMeta(c10::ScalarType type) : type_(type) {}
  c10::ScalarType toScalarType() const { return type_; }
  size_t itemsize() const { return c10::elementSize(type_); }
  const char* name() const {
    switch (type_) {
      case c10::ScalarType::Float: return "float";
      case c10::ScalarType::Double: return "double";
      case c10::ScalarType::Half: return "c10::Half";
      case c10::ScalarType::BFloat16: return "c10::BFloat16";
      case c10::ScalarType::Long: return "long int";
      case c10::ScalarType::Int: return "int";
      case c10::ScalarType::Short: return "short int";
      case c10::ScalarType::Char: return "signed char";
      case c10::ScalarType::Byte: return "unsigned char";
      case c10::ScalarType::Bool: return "bool";
      default: return c10::toString(type_);
    }
  }
  bool operator==(const TypeMeta& other) const { return type_ == other.type_; }
  bool operator!=(const TypeMeta& other) const { return type_ != other.type_; }

 private:
  c10::ScalarType type_;
};

inline bool operator==(TypeMeta left, c10::ScalarType right) { return left.toScalarType() == right; }
inline bool operator!=(TypeMeta left, c10::ScalarType right) { return left.toScalarType() != right; }
#ifdef KERNELSWEEP_LITE_TORCH
inline std::ostream& operator<<(std::ostream& stream, TypeMeta type) { return stream << type.name(); }
#endif

}  // namespace caffe2

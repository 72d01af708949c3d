// AT_DISPATCH_*: one call of the lambda for each element type, with scalar_t.
#pragma once

namespace __attribute__((visibility("hidden"))) kernelsweep_lite {
inline c10::ScalarType dispatched(c10::ScalarType type) { return type; }
template <typename Type>
c10::ScalarType dispatched(const Type& type) {
  return type.toScalarType();
}
}  // namespace kernelsweep_lite

#define AT_DISPATCH_CASE(enum_type, ...)                                              \
  case enum_type: {                                                                   \
    using scalar_t [[maybe_unused]] = c10::impl::ScalarTypeToCPPTypeT<enum_type>;     \
    return __VA_ARGS__();                                                             \
  }
#define AT_DISPATCH_SWITCH(TYPE, NAME, ...)                                                              \
  [&] {                                                                                                  \
    const at::ScalarType dispatched_type = ::kernelsweep_lite::dispatched(TYPE);                         \
    switch (dispatched_type) {                                                                           \
      __VA_ARGS__                                                                                        \
      default:                                                                                           \
        throw ::kernelsweep_lite::NotImplemented{::kernelsweep_lite::Message(                            \
            '"', NAME, "\" not implemented for '", c10::toString(dispatched_type), "'")};                \
    }                                                                                                    \
  }()

#define KERNELSWEEP_FLOATING(...)                         \
  AT_DISPATCH_CASE(at::ScalarType::Double, __VA_ARGS__)   \
  AT_DISPATCH_CASE(at::ScalarType::Float, __VA_ARGS__)
#define KERNELSWEEP_INTEGRAL(...)                         \
  AT_DISPATCH_CASE(at::ScalarType::Byte, __VA_ARGS__)     \
  AT_DISPATCH_CASE(at::ScalarType::Char, __VA_ARGS__)     \
  AT_DISPATCH_CASE(at::ScalarType::Int, __VA_ARGS__)      \
  AT_DISPATCH_CASE(at::ScalarType::Long, __VA_ARGS__)     \
  AT_DISPATCH_CASE(at::ScalarType::Short, __VA_ARGS__)

#define AT_DISPATCH_CASE_FLOATING_TYPES(...) KERNELSWEEP_FLOATING(__VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, KERNELSWEEP_FLOATING(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND(T1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, KERNELSWEEP_FLOATING(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(T1, T2, TYPE, NAME, ...)               \
  AT_DISPATCH_SWITCH(TYPE, NAME, KERNELSWEEP_FLOATING(__VA_ARGS__)             \
                     AT_DISPATCH_CASE(T1, __VA_ARGS__) AT_DISPATCH_CASE(T2, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(TYPE, NAME, ...) \
  AT_DISPATCH_FLOATING_TYPES_AND(at::ScalarType::Half, TYPE, NAME, __VA_ARGS__)
#define AT_DISPATCH_INTEGRAL_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, KERNELSWEEP_INTEGRAL(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, KERNELSWEEP_FLOATING(__VA_ARGS__) KERNELSWEEP_INTEGRAL(__VA_ARGS__))

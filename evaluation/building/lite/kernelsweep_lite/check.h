// TORCH_CHECK and its message, which needs neither strings nor streams of the standard library.
#pragma once

#ifdef KERNELSWEEP_LITE_STD
#include <kernelsweep_lite/standard.h>
#endif

namespace c10 {

struct Device;

namespace detail {
[[noreturn]] __attribute__((visibility("default"))) void torchCheckFail(const char* function, const char* file,
                                                                        uint32_t line, const char* message);
}  // namespace detail
}  // namespace c10

namespace __attribute__((visibility("hidden"))) kernelsweep_lite {

class Message {
 public:
  template <typename... T>
  explicit Message(const T&... parts) {
    (put(parts), ...);
    text_.push_back('\0');
  }
  const char* text() const { return text_.data(); }

 private:
  void put(const char* text) { text_.insert(text_.end(), text, text + std::strlen(text)); }
  void put(char* text) { put(const_cast<const char*>(text)); }
  void put(c10::ScalarType type) { put(c10::toString(type)); }
  template <typename T>
  void put(c10::ArrayRef<T> list) {
    put("[");
    for (size_t i = 0; i < list.size(); ++i) {
      put(i ? ", " : "");
      put(list[i]);
    }
    put("]");
  }
  template <typename Device>
  auto put(const Device& device) -> std::enable_if_t<std::is_same_v<Device, c10::Device>> {
    put(device.type());
    if (device.has_index()) print(":%d", device.index());
  }
  void put(c10::DeviceType type) {
    switch (type) {
      case c10::DeviceType::CPU: return put("cpu");
      case c10::DeviceType::CUDA: return put("cuda");
      case c10::DeviceType::HIP: return put("hip");
      case c10::DeviceType::XLA: return put("xla");
      case c10::DeviceType::XPU: return put("xpu");
      case c10::DeviceType::MPS: return put("mps");
      case c10::DeviceType::Meta: return put("meta");
    }
  }
  // As streams print them: a character as itself, bool and integers in decimals, numbers with six digits.
  template <typename T>
  auto put(T value) -> std::enable_if_t<std::is_arithmetic_v<T>> {
    if constexpr (std::is_floating_point_v<T>) {
      print("%g", static_cast<double>(value));
    } else if constexpr (sizeof(T) == 1 && !std::is_same_v<T, bool>) {
      text_.push_back(static_cast<char>(value));
    } else if constexpr (std::is_unsigned_v<T>) {
      print("%llu", static_cast<unsigned long long>(value));
    } else {
      print("%lld", static_cast<long long>(value));
    }
  }
  // What can tell its characters: a std::string, a name.
  template <typename T>
  auto put(const T& value) -> std::enable_if_t<std::is_same_v<decltype(value.data()), const char*>> {
    text_.insert(text_.end(), value.data(), value.data() + value.size());
  }
  template <typename T>
  auto put(const T& value) -> std::enable_if_t<std::is_same_v<decltype(value.name()), const char*>> {
    put(value.name());
  }
  template <typename T>
  void print(const char* format, T value) {
    char number[64];
    std::snprintf(number, sizeof number, format, value);
    put(number);
  }

  std::vector<char> text_;
};

// The parts, or else what torch says by itself.
template <typename... T>
Message explained(const char* otherwise, const T&... parts) {
  if constexpr (sizeof...(T) == 0) {
    return Message(otherwise);
  } else {
    return Message(parts...);
  }
}

// Torch's own class for this has members that only its headers know; bind.h turns either into Python's error.
struct NotImplemented {
  Message message;
};

}  // namespace kernelsweep_lite

#define TORCH_CHECK(condition, ...)                                                                            \
  if (__builtin_expect(!(condition), 0)) {                                                                     \
    ::c10::detail::torchCheckFail(                                                                             \
        __func__, __FILE__, static_cast<uint32_t>(__LINE__),                                                   \
        ::kernelsweep_lite::explained("Expected " #condition                                                   \
                                      " to be true, but got false.  (Could this error message be improved?  "  \
                                      "If so, please report an enhancement request to PyTorch.)",              \
                                      ##__VA_ARGS__)                                                           \
            .text());                                                                                          \
  }

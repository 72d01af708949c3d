// at::Tensor: one counted pointer, whose members call what libtorch exports.
#pragma once

#include <kernelsweep_lite/options.h>
#include <kernelsweep_lite/operators.h>

// The C functions of torch's stable ABI that read a tensor's metadata; zero is success.
extern "C" {
int32_t aoti_torch_assign_tensors(const void* source, void* target);
int32_t aoti_torch_get_data_ptr(const void* tensor, void** data);
int32_t aoti_torch_get_device_index(const void* tensor, int32_t* index);
int32_t aoti_torch_get_device_type(const void* tensor, int32_t* type);
int32_t aoti_torch_get_dim(const void* tensor, int64_t* dim);
int32_t aoti_torch_get_dtype(const void* tensor, int32_t* dtype);
int32_t aoti_torch_get_layout(const void* tensor, int32_t* layout);
int32_t aoti_torch_get_numel(const void* tensor, int64_t* numel);
int32_t aoti_torch_get_sizes(const void* tensor, int64_t** sizes);
int32_t aoti_torch_get_storage_offset(const void* tensor, int64_t* offset);
int32_t aoti_torch_get_strides(const void* tensor, int64_t** strides);
int32_t aoti_torch_is_contiguous(const void* tensor, bool* contiguous);
}

namespace c10 {
struct UndefinedTensorImpl {
  KERNELSWEEP_IMPORT static UndefinedTensorImpl _singleton;
};
}  // namespace c10

namespace at {

class KERNELSWEEP_HIDDEN TensorBase {
 public:
  TensorBase() = default;
  TensorBase(const TensorBase& other) { assign(other); }
  TensorBase(TensorBase&& other) noexcept { swap(other); }
  ~TensorBase() { reset(); }

  bool defined() const { return impl_ != undefined(); }
  bool is_same(const TensorBase& other) const { return impl_ == other.impl_; }
  void reset() {
    if (defined()) assign(TensorBase());
  }

  int64_t dim() const { return read<int64_t>(aoti_torch_get_dim); }
  int64_t ndimension() const { return dim(); }
  int64_t numel() const { return read<int64_t>(aoti_torch_get_numel); }
  int64_t storage_offset() const { return read<int64_t>(aoti_torch_get_storage_offset); }
  IntArrayRef sizes() const { return {read<int64_t*>(aoti_torch_get_sizes), static_cast<size_t>(dim())}; }
  IntArrayRef strides() const { return {read<int64_t*>(aoti_torch_get_strides), static_cast<size_t>(dim())}; }
  ScalarType scalar_type() const { return static_cast<ScalarType>(read<int32_t>(aoti_torch_get_dtype)); }
  TypeMeta dtype() const { return TypeMeta(scalar_type()); }
  Layout layout() const { return static_cast<Layout>(read<int32_t>(aoti_torch_get_layout)); }
  Device device() const {
    return Device(device_type(), static_cast<DeviceIndex>(read<int32_t>(aoti_torch_get_device_index)));
  }
  DeviceIndex get_device() const { return device().index(); }
  bool is_cpu() const { return device_type() == DeviceType::CPU; }
  bool is_cuda() const { return device_type() == DeviceType::CUDA; }
  bool is_floating_point() const { return isFloatingType(scalar_type()); }
  int64_t element_size() const { return static_cast<int64_t>(elementSize(scalar_type())); }
  size_t itemsize() const { return elementSize(scalar_type()); }
  size_t nbytes() const { return numel() * itemsize(); }
  TensorOptions options() const { return TensorOptions().dtype(scalar_type()).device(device()).layout(layout()); }

  void* data_ptr() const { return read<void*>(aoti_torch_get_data_ptr); }
  template <typename T>
  KERNELSWEEP_IMPORT T* data_ptr() const;
  template <typename T>
  KERNELSWEEP_IMPORT T* mutable_data_ptr() const;
  // The symbol of torch's own has another name in every other version.
  template <typename T>
  const T* const_data_ptr() const {
    return data_ptr<std::remove_const_t<T>>();
  }
  KERNELSWEEP_IMPORT const TensorBase& requires_grad_(bool value) const;

#ifdef KERNELSWEEP_LITE_TORCH
#include <kernelsweep_lite/accessors.inc>
#endif

  void* unsafeGetTensorImpl() const { return impl_; }

 protected:
  void assign(const TensorBase& other) { TORCH_CHECK(!aoti_torch_assign_tensors(&other, this), "no tensor to assign"); }
  void swap(TensorBase& other) noexcept { std::swap(impl_, other.impl_); }
  template <typename T>
  T read(int32_t (*get)(const void*, T*)) const {
    T value;
    TORCH_CHECK(get(this, &value) == 0, "tensor has no such property");
    return value;
  }

 private:
  static void* undefined() { return &c10::UndefinedTensorImpl::_singleton; }
  DeviceType device_type() const { return static_cast<DeviceType>(read<int32_t>(aoti_torch_get_device_type)); }

  void* impl_ = undefined();
};

inline int64_t get_device(const TensorBase& self) { return self.get_device(); }

class KERNELSWEEP_HIDDEN Tensor : public TensorBase {
 public:
  Tensor() = default;
  Tensor(const Tensor& other) = default;
  Tensor(Tensor&& other) noexcept = default;
  Tensor& operator=(const Tensor& other) & {
    assign(other);
    return *this;
  }
  Tensor& operator=(Tensor&& other) & noexcept {
    if (this != &other) {
      reset();
      swap(other);
    }
    return *this;
  }
  // Assigning to a temporary, as in x[0] = y, writes into the viewed memory.
  Tensor& operator=(const Tensor& other) && { return copy_(other); }
  Tensor& operator=(Tensor&& other) && { return copy_(other); }
  Tensor& operator=(const Scalar& value) && { return fill_(value); }

  int64_t size(int64_t dim) const {
    const IntArrayRef all = sizes();
    const auto count = static_cast<int64_t>(all.size());
    return dim >= -count && dim < count ? all[dim < 0 ? dim + count : dim] : _ops::size_int::call(*this, dim);
  }
  int64_t stride(int64_t dim) const {
    const IntArrayRef all = strides();
    const auto count = static_cast<int64_t>(all.size());
    return dim >= -count && dim < count ? all[dim < 0 ? dim + count : dim] : _ops::stride_int::call(*this, dim);
  }
  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const {
    if (format == MemoryFormat::Contiguous) return read<bool>(aoti_torch_is_contiguous);
    return is_channels_last(format);
  }
  template <typename T>
  KERNELSWEEP_IMPORT T item() const;
  template <typename T>
  [[deprecated("Tensor.data<T>() is deprecated. Please use Tensor.data_ptr<T>() instead.")]] T* data() const {
    return data_ptr<T>();
  }

#include <kernelsweep_lite/methods.inc>

 private:
  // By the order of the strides, as torch keeps it with every tensor of four or five dimensions.
  bool is_channels_last(MemoryFormat format) const {
    const int64_t count = format == MemoryFormat::ChannelsLast ? 4 : 5;
    TORCH_CHECK(format != MemoryFormat::Preserve, "preserve memory format is unsupported by the contiguous operator");
    if (dim() != count) return false;
    int64_t expected = 1;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = i == 0 ? 1 : i == count - 1 ? 0 : count - i;
      if (size(at) == 1) continue;
      if (stride(at) != expected) return false;
      expected *= size(at);
    }
    return true;
  }
  // In-place operators are members of a const Tensor: the pointer stays, what it points to changes.
  Tensor& written() const { return const_cast<Tensor&>(*this); }
};

}  // namespace at

namespace torch {
using at::Tensor;
}  // namespace torch

#include <kernelsweep_lite/functions.h>

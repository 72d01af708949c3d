// Functions of at::, which torch:: shares: factories, operators and their symbols.
#pragma once

namespace at {

#define KERNELSWEEP_PROPERTIES(options) \
  (options).dtype_opt(), (options).layout_opt(), (options).device_opt(), (options).pinned_memory_opt()

namespace __attribute__((visibility("hidden"))) kernelsweep_lite {
inline Tensor leaf(Tensor made, const TensorOptions& options) {
  if (options.requires_grad()) made.requires_grad_(true);
  return made;
}
}  // namespace kernelsweep_lite

inline Tensor empty(IntArrayRef size, TensorOptions options = {}, std::optional<MemoryFormat> format = std::nullopt) {
  return kernelsweep_lite::leaf(
      _ops::empty_memory_format::call(c10::symbolic(size), KERNELSWEEP_PROPERTIES(options),
                                      c10::only_format(options, format)),
      options);
}
inline Tensor full(IntArrayRef size, const Scalar& value, TensorOptions options = {}) {
  return kernelsweep_lite::leaf(_ops::full::call(c10::symbolic(size), value, KERNELSWEEP_PROPERTIES(options)), options);
}
inline Tensor full_like(const Tensor& self, const Scalar& value, TensorOptions options = {},
                        std::optional<MemoryFormat> format = std::nullopt) {
  return kernelsweep_lite::leaf(_ops::full_like::call(self, value, KERNELSWEEP_PROPERTIES(options),
                                                      c10::only_format(options, format)),
                                options);
}
inline Tensor arange(const Scalar& end, TensorOptions options = {}) {
  return kernelsweep_lite::leaf(_ops::arange::call(end, KERNELSWEEP_PROPERTIES(options)), options);
}
inline Tensor arange(const Scalar& start, const Scalar& end, TensorOptions options = {}) {
  return kernelsweep_lite::leaf(_ops::arange_start::call(start, end, KERNELSWEEP_PROPERTIES(options)), options);
}

#define KERNELSWEEP_FACTORY(name)                                                                              \
  inline Tensor name(IntArrayRef size, TensorOptions options = {}) {                                           \
    return kernelsweep_lite::leaf(_ops::name::call(c10::symbolic(size), KERNELSWEEP_PROPERTIES(options)), options); \
  }
KERNELSWEEP_FACTORY(ones)
KERNELSWEEP_FACTORY(rand)
KERNELSWEEP_FACTORY(randn)
KERNELSWEEP_FACTORY(zeros)
#undef KERNELSWEEP_FACTORY

#define KERNELSWEEP_LIKE(name)                                                                                   \
  inline Tensor name(const Tensor& self, TensorOptions options = {},                                             \
                     std::optional<MemoryFormat> format = std::nullopt) {                                        \
    return kernelsweep_lite::leaf(                                                                               \
        _ops::name::call(self, KERNELSWEEP_PROPERTIES(options), c10::only_format(options, format)), options);    \
  }
KERNELSWEEP_LIKE(empty_like)
KERNELSWEEP_LIKE(ones_like)
KERNELSWEEP_LIKE(rand_like)
KERNELSWEEP_LIKE(zeros_like)
#undef KERNELSWEEP_LIKE
#undef KERNELSWEEP_PROPERTIES

#define KERNELSWEEP_UNARY(name) \
  inline Tensor name(const Tensor& self) { return self.name(); }
KERNELSWEEP_UNARY(abs)
KERNELSWEEP_UNARY(all)
KERNELSWEEP_UNARY(any)
KERNELSWEEP_UNARY(ceil)
KERNELSWEEP_UNARY(cos)
KERNELSWEEP_UNARY(erf)
KERNELSWEEP_UNARY(exp)
KERNELSWEEP_UNARY(floor)
KERNELSWEEP_UNARY(isnan)
KERNELSWEEP_UNARY(log)
KERNELSWEEP_UNARY(max)
KERNELSWEEP_UNARY(min)
KERNELSWEEP_UNARY(neg)
KERNELSWEEP_UNARY(reciprocal)
KERNELSWEEP_UNARY(relu)
KERNELSWEEP_UNARY(rsqrt)
KERNELSWEEP_UNARY(sigmoid)
KERNELSWEEP_UNARY(sin)
KERNELSWEEP_UNARY(sqrt)
KERNELSWEEP_UNARY(square)
KERNELSWEEP_UNARY(squeeze)
KERNELSWEEP_UNARY(t)
KERNELSWEEP_UNARY(tanh)
#undef KERNELSWEEP_UNARY
inline Tensor silu(const Tensor& self) { return _ops::silu::call(self); }
#ifdef KERNELSWEEP_LITE_STD
inline Tensor gelu(const Tensor& self, std::string_view approximate = "none") {
  return _ops::gelu::call(self, approximate);
}
#endif

#define KERNELSWEEP_BINARY(name)                                                                \
  inline Tensor name(const Tensor& self, const Tensor& other) { return self.name(other); }      \
  inline Tensor name(const Tensor& self, const Scalar& other) { return self.name(other); }
KERNELSWEEP_BINARY(div)
KERNELSWEEP_BINARY(eq)
KERNELSWEEP_BINARY(ge)
KERNELSWEEP_BINARY(gt)
KERNELSWEEP_BINARY(le)
KERNELSWEEP_BINARY(lt)
KERNELSWEEP_BINARY(mul)
KERNELSWEEP_BINARY(ne)
KERNELSWEEP_BINARY(pow)
#undef KERNELSWEEP_BINARY
#define KERNELSWEEP_SUM(name)                                                           \
  inline Tensor name(const Tensor& self, const Tensor& other, const Scalar& alpha = 1) { \
    return self.name(other, alpha);                                                     \
  }                                                                                     \
  inline Tensor name(const Tensor& self, const Scalar& other, const Scalar& alpha = 1) { \
    return self.name(other, alpha);                                                     \
  }
KERNELSWEEP_SUM(add)
KERNELSWEEP_SUM(sub)
#undef KERNELSWEEP_SUM

inline Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta = 1,
                    const Scalar& alpha = 1) {
  return _ops::addmm::call(self, mat1, mat2, beta, alpha);
}
inline Tensor amax(const Tensor& self, IntArrayRef dim = {}, bool keepdim = false) { return self.amax(dim, keepdim); }
inline Tensor amin(const Tensor& self, IntArrayRef dim = {}, bool keepdim = false) { return self.amin(dim, keepdim); }
inline Tensor baddbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta = 1,
                      const Scalar& alpha = 1) {
  return _ops::baddbmm::call(self, batch1, batch2, beta, alpha);
}
inline Tensor bmm(const Tensor& self, const Tensor& mat2) { return self.bmm(mat2); }
inline Tensor clamp(const Tensor& self, const std::optional<Scalar>& min,
                    const std::optional<Scalar>& max = std::nullopt) {
  return self.clamp(min, max);
}
inline Tensor cumsum(const Tensor& self, int64_t dim, std::optional<ScalarType> dtype = std::nullopt) {
  return self.cumsum(dim, dtype);
}
inline Tensor dot(const Tensor& self, const Tensor& tensor) { return self.dot(tensor); }
inline bool equal(const Tensor& self, const Tensor& other) { return self.equal(other); }
inline Tensor linear(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias = {}) {
  return _ops::linear::call(input, weight, bias);
}
inline Tensor log_softmax(const Tensor& self, int64_t dim, std::optional<ScalarType> dtype = std::nullopt) {
  return self.log_softmax(dim, dtype);
}
inline Tensor matmul(const Tensor& self, const Tensor& other) { return self.matmul(other); }
inline std::tuple<Tensor, Tensor> max(const Tensor& self, int64_t dim, bool keepdim = false) {
  return self.max(dim, keepdim);
}
inline Tensor max(const Tensor& self, const Tensor& other) { return _ops::max_other::call(self, other); }
inline std::tuple<Tensor, Tensor> min(const Tensor& self, int64_t dim, bool keepdim = false) {
  return self.min(dim, keepdim);
}
inline Tensor min(const Tensor& self, const Tensor& other) { return _ops::min_other::call(self, other); }
inline Tensor mean(const Tensor& self, std::optional<ScalarType> dtype = std::nullopt) { return self.mean(dtype); }
inline Tensor mean(const Tensor& self, OptionalIntArrayRef dim, bool keepdim = false,
                   std::optional<ScalarType> dtype = std::nullopt) {
  return self.mean(dim, keepdim, dtype);
}
inline Tensor mm(const Tensor& self, const Tensor& mat2) { return self.mm(mat2); }
inline Tensor mv(const Tensor& self, const Tensor& vec) { return self.mv(vec); }
inline Tensor outer(const Tensor& self, const Tensor& vec2) { return _ops::outer::call(self, vec2); }
inline Tensor softmax(const Tensor& self, int64_t dim, std::optional<ScalarType> dtype = std::nullopt) {
  return self.softmax(dim, dtype);
}
inline Tensor stack(TensorList tensors, int64_t dim = 0) { return _ops::stack::call(tensors, dim); }
inline Tensor sum(const Tensor& self, std::optional<ScalarType> dtype = std::nullopt) { return self.sum(dtype); }
inline Tensor sum(const Tensor& self, OptionalIntArrayRef dim, bool keepdim = false,
                  std::optional<ScalarType> dtype = std::nullopt) {
  return self.sum(dim, keepdim, dtype);
}
inline Tensor transpose(const Tensor& self, int64_t dim0, int64_t dim1) { return self.transpose(dim0, dim1); }
inline Tensor where(const Tensor& condition, const Tensor& self, const Tensor& other) {
  return _ops::where_self::call(condition, self, other);
}

#define KERNELSWEEP_SYMBOL(op, forward, backward)                              \
  inline Tensor operator op(const Tensor& x, const Tensor& y) { return forward; } \
  inline Tensor operator op(const Tensor& x, const Scalar& y) { return forward; } \
  inline Tensor operator op(const Scalar& x, const Tensor& y) { return backward; }
KERNELSWEEP_SYMBOL(+, x.add(y), y.add(x))
KERNELSWEEP_SYMBOL(*, x.mul(y), y.mul(x))
KERNELSWEEP_SYMBOL(-, x.sub(y), empty_like(y, MemoryFormat::Preserve).fill_(x).sub_(y))
KERNELSWEEP_SYMBOL(/, x.div(y), empty_like(y, MemoryFormat::Preserve).fill_(x).div_(y))
KERNELSWEEP_SYMBOL(<, x.lt(y), y.gt(x))
KERNELSWEEP_SYMBOL(<=, x.le(y), y.ge(x))
KERNELSWEEP_SYMBOL(>, x.gt(y), y.lt(x))
KERNELSWEEP_SYMBOL(>=, x.ge(y), y.le(x))
KERNELSWEEP_SYMBOL(==, x.eq(y), y.eq(x))
KERNELSWEEP_SYMBOL(!=, x.ne(y), y.ne(x))
#undef KERNELSWEEP_SYMBOL

}  // namespace at

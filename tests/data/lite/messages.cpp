// What TORCH_CHECK prints, dispatch on the element type, memory formats: torch's words, said by the lite headers.
#include <torch/extension.h>
torch::Tensor checked(torch::Tensor x, int64_t how) {
  const char* name = "x";
  if (how == 0) TORCH_CHECK(x.dim() == 3, "expected 3 dimensions, got ", x.dim(), " of sizes ", x.sizes(), " and strides ", x.strides());
  if (how == 1) TORCH_CHECK(x.dtype() == torch::kDouble, name, " must be double, is ", x.dtype(), " alias ", x.scalar_type());
  if (how == 2) TORCH_CHECK(x.device().is_cuda(), name, " must be on cuda, is on ", x.device());
  if (how == 3) TORCH_CHECK(x.is_cuda());
  if (how == 4) TORCH_CHECK(false, 0.1, ' ', 1e10, ' ', 2.5f, ' ', 3u, ' ', -4, ' ', size_t(5), ' ', true, ' ', x.is_contiguous());
  if (how == 5) TORCH_CHECK(x.size(0) > 100 && x.size(1) < 3, "both");
  if (how == 6) TORCH_CHECK(false, torch::kBFloat16, ' ', c10::IntArrayRef({}), ' ', torch::Device(torch::kCUDA, 1), ' ', torch::kCPU);
  return x;
}
torch::Tensor dispatched(torch::Tensor x) {
  auto out = torch::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "dispatched", [&] {
    for (int64_t i = 0; i < x.numel(); ++i) out.data_ptr<scalar_t>()[i] = x.data_ptr<scalar_t>()[i] * scalar_t(3);
  });
  return out;
}
int64_t widths(torch::Tensor x) {
  return AT_DISPATCH_SWITCH(x.scalar_type(), "widths",
      AT_DISPATCH_CASE(torch::kInt, [&] { return int64_t(sizeof(scalar_t)); })
      AT_DISPATCH_CASE_FLOATING_TYPES([&] { return int64_t(10 * sizeof(scalar_t)); }));
}
int64_t reduced(torch::Tensor x) {
  int64_t width = 0;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, x.scalar_type(), "reduced", [&] {
    width = static_cast<int64_t>(static_cast<float>(x.data_ptr<scalar_t>()[0]) * 100) + sizeof(scalar_t);
  });
  return width;
}
int64_t formats(torch::Tensor x) {
  return x.is_contiguous() + 2 * x.is_contiguous(at::MemoryFormat::ChannelsLast) + 4 * x.is_contiguous(at::MemoryFormat::ChannelsLast3d);
}

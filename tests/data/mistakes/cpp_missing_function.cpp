#include <torch/extension.h>

void scale(const float* x, float* y, float factor, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = factor * x[i];
}

torch::Tensor walk(torch::Tensor x) {
  auto y = torch::empty_like(x);
  scale(x.data_ptr<float>(), y.data_ptr<float>(), 2.0f, x.numel());
  return y;
}

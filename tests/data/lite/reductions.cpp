torch::Tensor row_sums(torch::Tensor x) {
  auto out = torch::zeros({x.size(0)}, torch::TensorOptions().dtype(x.dtype()).device(x.device()));
  auto from = x.accessor<float, 2>();
  auto to = out.accessor<float, 1>();
  for (int64_t i = 0; i < from.size(0); ++i) {
    for (int64_t j = 0; j < from.size(1); ++j) to[i] += from[i][j];
  }
  return out;
}

std::tuple<torch::Tensor, torch::Tensor> row_extremes(const torch::Tensor& x) {
  return std::make_tuple(std::get<0>(x.max(1)), std::get<1>(x.min(/*dim=*/1, /*keepdim=*/true)));
}

double total(const torch::Tensor& x) {
  const auto flat = x.contiguous().view({-1});
  const double* values = flat.data_ptr<double>();
  return at::parallel_reduce(
      0, flat.numel(), 16, 0.0,
      [&](int64_t begin, int64_t end, double sum) {
        for (int64_t i = begin; i < end; ++i) sum += values[i];
        return sum;
      },
      [](double a, double b) { return a + b; });
}

torch::Tensor integer_sum(const torch::Tensor& x) {
  auto out = torch::zeros({}, x.options());
  AT_DISPATCH_ALL_TYPES(x.scalar_type(), "integer_sum", [&] {
    scalar_t sum = 0;
    for (int64_t i = 0; i < x.numel(); ++i) sum += x.data_ptr<scalar_t>()[i];
    out.fill_(sum);
  });
  return out;
}

std::vector<torch::Tensor> views(torch::Tensor x) {
  return {x.view({-1, 2}),  x.reshape({x.numel()}), x.transpose(0, 1),        x.t(),
          x.flatten(),      x.unsqueeze(-1),        x.unsqueeze(0).squeeze(0), x.unsqueeze(1).squeeze(),
          x.select(1, 2),   x.narrow(1, 1, 2),      x.slice(1, 0, 4, 2),       x.permute({1, 0}),
          x[1],             x[0].expand({3, 4}),    x.repeat({2, 1}),          x.t().contiguous(),
          x.clone().zero_(), torch::stack({x, x}, 1)};
}

std::vector<int64_t> properties(const torch::Tensor& x) {
  const auto strides = x.strides().vec();
  std::vector<int64_t> out(x.sizes().begin(), x.sizes().end());
  out.insert(out.end(), strides.begin(), strides.end());
  for (int64_t value : {x.dim(), x.numel(), x.storage_offset(), x.stride(-1), int64_t(x.element_size()),
                        int64_t(x.is_contiguous()), int64_t(x.is_cuda()), int64_t(x.is_floating_point()),
                        int64_t(x.get_device()), int64_t(x.nbytes()), int64_t(x.scalar_type()),
                        int64_t(x.defined()), int64_t(torch::Tensor().defined())}) {
    out.push_back(value);
  }
  return out;
}

torch::Tensor written(torch::Tensor x) {
  auto out = torch::zeros_like(x);
  out[0] = x[1];
  out[1].fill_(3);
  out.select(1, 0) = 7;
  torch::Tensor other;
  other = out;
  other.narrow(1, 1, 1).copy_(x.narrow(1, 0, 1));
  return out;
}

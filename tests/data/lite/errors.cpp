torch::Tensor fails(torch::Tensor x, int64_t how) {
  TORCH_CHECK(how != 0);
  TORCH_CHECK(how != 1, "sizes ", x.sizes(), " type ", x.dtype(), " device ", x.device(), " number ", 1.5);
  TORCH_CHECK_VALUE(how != 2, "a value");
  TORCH_CHECK_INDEX(how != 3, "an index");
  if (how == 4) throw std::runtime_error("runtime");
  if (how == 5) throw std::out_of_range("range");
  if (how == 6) throw std::invalid_argument("argument");
  if (how == 7) throw 7;
  if (how == 8) return x.matmul(torch::zeros({17, 3}));
  if (how == 9) return x.data_ptr<double>() ? x : x;
  if (how == 10) return x.select(5, 0);
  if (how == 11) return x.view({-1, 1000});
  if (how == 12) AT_ERROR("at error");
  if (how == 13) return torch::empty({x.size(9)});
  if (how == 14) return x.accessor<float, 5>().size(0) ? x : x;
  if (how == 15) TORCH_WARN("a warning of the kernel");
  if (how == 16) TORCH_INTERNAL_ASSERT(false, "internal");
  return x;
}

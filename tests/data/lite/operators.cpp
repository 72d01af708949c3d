std::vector<torch::Tensor> arithmetic(torch::Tensor a, torch::Tensor b) {
  auto c = a.clone();
  c += b;
  c *= 2;
  c.sub_(b, 0.5).div_(3.0).clamp_min(0.1);
  return {a + b, a - 1, 2 - a, a * b, 1.0 / b, -a, a.add(b, 2), a.pow(2), torch::pow(b, 0.5), a < b, a >= 0.5, a == a,
          a.matmul(b.t()), torch::mm(a, b.t()), at::linear(a, b), torch::addmm(c.sum(0).sum() * torch::ones({2, 2}), a, b.t()),
          a.sum(), a.sum(1), a.sum({-2, -1}, true), a.mean(), a.mean(-1), torch::softmax(a, 1), a.log_softmax(-1), a.amax({1}), a.argmax(1),
          a.cumsum(1), torch::relu(a), at::sigmoid(a), a.tanh(), torch::exp(a), b.sqrt(), b.rsqrt(), torch::gelu(a), at::silu(a),
          torch::where(a < b, a, b), torch::clamp(a, -0.5, 0.5), torch::max(a, b), a.norm(), c, torch::sum(a, {1}), a.clamp(0)};
}

std::vector<torch::Tensor> made(torch::Tensor like) {
  auto options = torch::TensorOptions().dtype(torch::kInt64).device(torch::kCPU);
  return {torch::zeros({2, 3}), torch::ones({2}, options), torch::full({2, 2}, 1.5), torch::full({2}, 7), torch::full({2}, true),
          torch::arange(5), torch::arange(0, 1, torch::kFloat16).to(torch::kFloat), torch::zeros_like(like),
          torch::full_like(like, 2), torch::ones_like(like, torch::kDouble), like.to(torch::kFloat64), like.to(torch::kHalf),
          like.to(torch::TensorOptions().dtype(torch::kInt)), like.toType(torch::kBFloat16), torch::zeros(3, torch::kBool),
          torch::zeros({1}, torch::dtype(torch::kFloat32).requires_grad(true)), like.detach(), like.to(like.device(), torch::kDouble),
          at::zeros({0, 4}, like.options().dtype(torch::kShort))};
}

double item(torch::Tensor x) { return x.item<double>() + x.sum().item<float>(); }

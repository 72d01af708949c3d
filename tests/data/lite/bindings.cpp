std::string described(int count, int64_t large, double real, float small, bool flag, const std::string& text) {
  return std::to_string(count) + " " + std::to_string(large) + " " + std::to_string(real) + " " + std::to_string(small) +
      (flag ? " yes " : " no ") + text;
}
int64_t counted(const std::vector<torch::Tensor>& tensors, std::vector<int64_t> sizes, std::optional<torch::Tensor> extra,
                std::optional<int64_t> more) {
  return static_cast<int64_t>(tensors.size()) * 100 + static_cast<int64_t>(sizes.size()) * 10 +
      (extra.has_value() ? extra->numel() : 0) + more.value_or(1000);
}
void doubled_in_place(torch::Tensor x) { x.mul_(2); }
bool is_even(uint32_t value) { return value % 2 == 0; }
std::tuple<int, std::string, std::vector<double>> mixed() { return {1, "two", {3.0}}; }
std::pair<torch::Tensor, bool> pair(torch::Tensor& x) { return {x, true}; }
std::optional<torch::Tensor> maybe(torch::Tensor x, bool give) { return give ? std::optional<torch::Tensor>(x) : std::nullopt; }
torch::Tensor undefined() { return torch::Tensor(); }
namespace inner {
int64_t answer() { return 42; }
}

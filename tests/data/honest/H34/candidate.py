import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
torch::Tensor mean_ranks(torch::Tensor x) {
    auto out = torch::empty({x.size(1), x.size(2)}, x.options());
    const float* in = x.data_ptr<float>();
    float* y = out.data_ptr<float>();
    int64_t ranks = x.size(0), count = x.size(1) * x.size(2);
    #pragma omp parallel for num_threads(2)
    for (int64_t i = 0; i < count; i++) {
        float sum = 0;
        for (int64_t r = 0; r < ranks; r++) sum += in[r * count + i];
        y[i] = sum / ranks;
    }
    return out;
}
"""
kernels = load_inline(
    name="omp_mean",
    cpp_sources=SOURCE,
    functions=["mean_ranks"],
    extra_cflags=["-O3", "-fopenmp"],
    extra_ldflags=["-fopenmp"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return kernels.mean_ranks(x)

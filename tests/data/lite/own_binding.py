"""A module that binds itself, with names for its arguments."""

import torch
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

torch::Tensor scaled(torch::Tensor x, double factor) { return x * factor; }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("scaled", &scaled, "x times factor", py::arg("x"), py::arg("factor") = 2.0);
}
"""

module = load_inline(
    name="own_binding_module",
    cpp_sources=source,
)


def calls():
    return [("scaled", (torch.ones(3),)), ("scaled", (torch.ones(3), 5))]

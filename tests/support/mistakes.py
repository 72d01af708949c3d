"""Sources with one typical mistake each, and what any compiler says about it."""

from __future__ import annotations

from pathlib import Path

from evaluation.building import BuildRequest

FOLDER = Path(__file__).parents[1] / "data" / "mistakes"
SAYS = {
    "cpp_const": "main.cpp:5:40: error: assignment of read-only location",
    "cpp_count": "main.cpp:10:8: error: too few arguments to function",
    "cpp_mismatch": "main.cpp:10:15: error: ambiguating new declaration of",
    "cpp_missing_function": "error: 'run' was not declared in this scope",
    "cpp_missing_include": "main.cpp:3:10: fatal error: Eigen/Dense: No such file or directory",
    "cpp_return": "main.cpp:11:10: error: could not convert '\"done\"' from 'const char [5]' to 'at::Tensor'",
    "cpp_semicolon": "main.cpp:5:55: error: expected ';' before '}' token",
    "cpp_template_argument": "main.cpp:11:15: error: no matching function for call to 'scale<float>(",
    "cpp_tensor_argument": "main.cpp:10:9: error: cannot convert 'at::Tensor' to 'const float*'",
    "cpp_type": "main.cpp:10:9: error: cannot convert 'const char*' to 'const float*'",
    "cpp_undeclared": "main.cpp:5:42: error: 'facter' was not declared in this scope; did you mean 'factor'?",
    "cpp_undefined": "undefined reference to `scale(float const*, float*, float, long)'",
    "cpp_unknown_api": "main.cpp:9:19: error: 'empty_as' is not a member of 'torch'",
    "cpp_unknown_member": "main.cpp:10:59: error: 'class at::Tensor' has no member named 'nelement'",
    "cuda_asm": "Unknown modifier '.float32'",
    "cuda_brace": 'cuda.cu(12): error: expected a ";"',
    "cuda_const": "cuda.cu(9): error: expression must be a modifiable lvalue",
    "cuda_device_call": 'calling a __device__ function("twice(float)") from a __host__ function("run")',
    "cuda_host_call": 'calling a __host__ function("host_scale(float)") from a __global__ function("scale_kernel")',
    "cuda_kernel_semicolon": 'cuda.cu(10): error: expected a ";"',
    "cuda_launch_argument": 'no suitable conversion function from "at::Tensor" to "const float *" exists',
    "cuda_launch_count": "cuda.cu(15): error: too few arguments in function call",
    "cuda_missing_include": "cuda.cu:6:10: fatal error: cutlass/gemm/device/gemm.h: No such file or directory",
    "cuda_semicolon": 'cuda.cu(15): error: expected a ";"',
    "cuda_shared_memory": "uses too much shared data",
    "cuda_template_argument": 'no instance of function template "scale_kernel" matches the argument list',
    "cuda_undeclared": 'cuda.cu(9): error: identifier "facter" is undefined',
    "cuda_unknown_api": 'cuda.cu(13): error: namespace "torch" has no member "empty_as"',
    "cuda_unknown_member": 'cuda.cu(14): error: class "at::Tensor" has no member "nelement"',
}
"""By file name; lines as in the file that the compiler reads, which starts with the implicit headers."""


def request_of(name: str, *, allow_lite: bool = True) -> BuildRequest:
    """What load_inline asks for the file of that name."""
    (path,) = FOLDER.glob(f"{name}.*")
    source = path.read_text()
    cuda = path.suffix == ".cu"
    return BuildRequest(
        name="mistake",
        cpp_sources=["torch::Tensor run(torch::Tensor x);" if cuda else source],
        cuda_sources=[source] if cuda else [],
        functions={"run": "run"},
        allow_lite=allow_lite,
    )

"""What the compilers are given: the files of a request and their command lines, for each set of headers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluation.building import flags
from evaluation.building.parts import lite_flags
from evaluation.building.request import BuildRequest
from evaluation.building.slim import NAMED_FOLDER, named_headers, needs_python
from evaluation.building.tokens import identifiers
from evaluation.building.toolchain import LITE_FOLDER, SLIM_FOLDER, Toolchain

LITE, SLIM, STOCK = "lite", "slim", "stock"
_IMPLICIT_CPP = ["#include <torch/extension.h>"]
_IMPLICIT_CUDA = ["#include <torch/types.h>", "#include <cuda.h>", "#include <cuda_runtime.h>"]
_BINDS_ITSELF = {"PYBIND11_MODULE", "TORCH_LIBRARY", "TORCH_LIBRARY_IMPL", "TORCH_LIBRARY_FRAGMENT"}
_NVCC_DEFINES = [
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
    "--expt-relaxed-constexpr",
]
_ARCH_OPTIONS = ("arch", "gencode", "generate-code", "gpu-architecture")


@dataclass(frozen=True, slots=True)
class Unit:
    """One translation unit: its file, and the command that compiles it to `object`."""

    file: str
    object: str
    command: tuple[str, ...]

    @property
    def cuda(self) -> bool:
        """Whether nvcc compiles it."""
        return self.file.endswith(".cu")


@dataclass(frozen=True, slots=True)
class Plan:
    """All that one tier runs for a request."""

    files: Mapping[str, str]
    units: tuple[Unit, ...]
    link: tuple[str, ...]
    library: str
    cuda: bool
    """Whether the link needs torch's CUDA libraries."""


def lite_applies(request: BuildRequest) -> bool:
    """Whether the lite headers could do it at all; the compiler decides the rest."""
    if request.functions is None or not (request.allow_lite and request.is_python_module):
        return False
    if not request.with_pytorch_error_handling:
        return False
    return not any(_BINDS_ITSELF & identifiers(source) for source in request.cpp_sources)


def plan(request: BuildRequest, tier: str, toolchain: Toolchain, cuda_arch: str, scratch: Path) -> Plan:
    """Files and commands for one tier. Raises RequestError when a flag or path is refused."""
    folders = toolchain.site_folders()
    include = [
        *_ours(request, tier),
        *(["-I."] if request.headers else []),
        *flags.include_folders(request.extra_include_paths, folders),
        *toolchain.include_flags(cuda=request.cuda),
    ]
    common = [f"-DTORCH_EXTENSION_NAME={request.name}", "-DTORCH_API_INCLUDE_EXTENSION_H", *include]
    cxx = [toolchain.cxx, *common, "-fPIC", toolchain.standard, *flags.compiler_flags(request.extra_cflags, folders)]
    cxx += ["-fmax-errors=1" if tier == SLIM else "-fmax-errors=20"]  # an error there only means that stock is asked
    files = _files(request, tier)
    units = []
    for file in files:
        made = file + ".o"
        python = _python(request, files[file]) if tier == SLIM else []
        if file.endswith(".cpp"):
            units.append(Unit(file, made, (*cxx, *python, "-c", file, "-o", made)))
        elif file.endswith(".cu"):
            nvcc = [toolchain.nvcc or "nvcc", *common, *_NVCC_DEFINES, "--compiler-options", "-fPIC"]
            extra = flags.nvcc_flags(request.extra_cuda_cflags, folders)
            standard = [] if any("-std=" in flag for flag in extra) else [toolchain.standard]
            ours = [*_arch(extra, cuda_arch), *extra, *standard]
            units.append(Unit(file, made, (*nvcc, *ours, *python, "-c", file, "-o", made)))
    library = request.name + ".so"
    link = [toolchain.cxx, *(unit.object for unit in units), "-shared"]
    link += flags.linker_flags(request.extra_ldflags, folders)
    link += toolchain.library_flags(cuda=request.cuda)
    link += toolchain.complete_link_flags(scratch) if tier != STOCK else []
    named = named_headers(request, toolchain.torch_folder / "include") if tier == SLIM else {}
    return Plan({**request.headers, **named, **files}, tuple(units), (*link, "-o", library), library, request.cuda)


def _ours(request: BuildRequest, tier: str) -> list[str]:
    """What puts a tier's headers before torch's."""
    if tier == LITE:
        return ["-isystem", str(LITE_FOLDER), *lite_flags(request)]
    if tier == SLIM:
        return ["-isystem", NAMED_FOLDER, "-isystem", str(SLIM_FOLDER), "-DAT_PER_OPERATOR_HEADERS"]
    return []


def _python(request: BuildRequest, text: str) -> list[str]:
    return ["-DKERNELSWEEP_SLIM_PYTHON"] if needs_python([text, *request.headers.values()]) else []


def _files(request: BuildRequest, tier: str) -> dict[str, str]:
    cpp, cuda = list(request.cpp_sources), list(request.cuda_sources)
    if not request.inline:
        files = {f"source{i}.cpp": text for i, text in enumerate(cpp)}
        return {**files, **{f"source{i}.cu": text for i, text in enumerate(cuda)}}
    implicit = not request.no_implicit_headers
    binding = _binding(request, tier)
    files = {"main.cpp": "\n".join([*(_IMPLICIT_CPP if implicit else []), *cpp, *binding]) + "\n"}
    if cuda:
        files["cuda.cu"] = "\n".join([*(_IMPLICIT_CUDA if implicit else []), *cuda]) + "\n"
    return files


def _binding(request: BuildRequest, tier: str) -> list[str]:
    if request.functions is None:
        return []
    documented = [(function, json.dumps(doc, ensure_ascii=False)) for function, doc in request.functions.items()]
    if tier != LITE:
        called = "torch::wrap_pybind_function({})" if request.with_pytorch_error_handling else "{}"
        lines = [f'm.def("{name}", {called.format(name)}, {doc});' for name, doc in documented]
        return ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", *lines, "}"]
    lines = [f'kernelsweep_lite::method<&{name}>("{name}", {doc}),' for name, doc in documented]
    return [
        "#include <kernelsweep_lite/bind.h>",
        "static PyMethodDef kernelsweep_methods[] = {",
        *lines,
        "{nullptr, nullptr, 0, nullptr}};",
        f'extern "C" __attribute__((visibility("default"))) PyObject* PyInit_{request.name}() {{',
        f'return kernelsweep_lite::module("{request.name}", kernelsweep_methods);',
        "}",
    ]


def _arch(extra: list[str], cuda_arch: str) -> list[str]:
    if any(flag.lstrip("-").split("=")[0] in _ARCH_OPTIONS for flag in extra):
        return []
    return [f"-gencode=arch=compute_{cuda_arch},code=sm_{cuda_arch}"]

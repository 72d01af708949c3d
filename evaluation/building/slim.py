"""Which parts of torch's own headers a request needs, read off the names in its sources.

torch/extension.h takes compilers long because it brings the C++ frontend and every operator of ATen. The slim headers
bring the same classes, and of the operators and factories those that the sources name, from the installed torch's own
files: an overload set that the sources name is whole, no name is pasted together, and no condition of the preprocessor
asks for a macro that may be missing, so that what compiles means the same. For what is left out, the compile fails and
the stock headers build the request.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path

from evaluation.building.request import BuildRequest
from evaluation.building.tokens import identifiers

NAMED_FOLDER = "kernelsweep_named"
"""The folder, beside the sources, of the headers that are made for one request."""
_NAMED = f"{NAMED_FOLDER}/kernelsweep_slim_named"
# One factory of torch's; those of one name stand behind each other.
_FACTORY = re.compile(r"^inline at::Tensor (\w+)\(.*?^\}$", re.MULTILINE | re.DOTALL)
# The same for functions that ATen/Functions.h defines itself.
_FUNCTION = re.compile(r"^inline [\w:<>, ]+ (\w+)\(const Tensor& .*?^\}$", re.MULTILINE | re.DOTALL)
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:el)?if(?:n?def)?\b((?:[^\n\\]|\\.)*)", re.MULTILINE | re.DOTALL)
_DEFINITION = re.compile(r"^[ \t]*(?:#[ \t]*define[ \t]+|-D)(\w+)", re.MULTILINE)
# Macros that the slim headers define as torch's do, or neither does, and the operators of conditions.
_SAME_MACROS = re.compile(
    r"__\w+|TORCH_(VERSION|EXTENSION)_\w+|C10_WARP_SIZE|CUDART?_VERSION|USE_ROCM|NDEBUG|defined|true|false"
)
_PYTHON = re.compile(r"py|pybind11|PYBIND11_\w+|Py[A-Z_]\w*|THP\w+")
# What torch/extension.h brings beside operators and what the slim headers always have.
_PARTS = {
    "ATen/Context.h": "Context globalContext manual_seed hasCUDA",
    "ATen/DeviceGuard.h": "device_of",
    "ATen/ExpandUtils.h": "infer_size expand_inplace expand_outplace sum_to",
    "ATen/Parallel.h": "parallel_for parallel_reduce get_num_threads set_num_threads in_parallel_region",
    "ATen/ScalarOps.h": "scalar_to_tensor wrapped_scalar_tensor",
    "ATen/TensorIndexing.h": "indexing TensorIndex Slice",
    "ATen/TensorUtils.h": "TensorArg CheckedFrom checkSameGPU checkAllSameGPU checkContiguous checkScalarType",
    "torch/library.h": "TORCH_LIBRARY TORCH_LIBRARY_IMPL TORCH_LIBRARY_FRAGMENT Library CppFunction",
}
_CONTAINER = "torch/csrc/api/include/torch/detail/TensorDataContainer.h"
_LISTS = "ATen/core/IListRef.h"


def slim_applies(request: BuildRequest) -> bool:
    """Whether the slim headers mean the same to the preprocessor; the compiler decides the rest."""
    texts = _texts(request)
    own = {name for text in texts for name in _DEFINITION.findall(text)}
    asked = {name for text in texts for condition in _CONDITION.findall(text) for name in identifiers(condition)}
    return not any("##" in text for text in texts) and all(_SAME_MACROS.fullmatch(name) for name in asked - own)


def named_headers(request: BuildRequest, torch_include: Path) -> dict[str, str]:
    """The headers made for the request, by path: what it names of torch's operators and factories."""
    # A name of an operator with symbolic sizes, or with an output, stands in the header of the plain one.
    names = {name for text in _texts(request) for name in identifiers(text)}
    names |= {re.sub(r"(_symint|_outf?)+$", "", name) for name in names}
    operators = sorted(names & _operators(torch_include))
    parts = [part for part, which in _PARTS.items() if names & set(which.split())]
    factories = {name: text for name, text in _factories(torch_include).items() if name in names}
    container = [_CONTAINER] if "tensor" in factories else []
    functions = [text for name, text in _functions(torch_include).items() if name in names]
    lists = [_LISTS] if any(_takes_lists(torch_include, name) for name in operators) else []
    headers = _included([*lists, *(f"ATen/ops/{name}.h" for name in operators)])
    return {
        f"{_NAMED}/operators.h": headers + _inside("at", functions),
        f"{_NAMED}/factories.h": _included([*parts, *container]) + _inside("torch", factories.values()),
    }


def needs_python(texts: Iterable[str]) -> bool:
    """Whether a unit of these texts names something of Python's or pybind11's."""
    return any(_PYTHON.fullmatch(name) for text in texts for name in identifiers(text))


def _texts(request: BuildRequest) -> list[str]:
    """Sources, and flags that may define macros."""
    sources = [*request.cpp_sources, *request.cuda_sources, *request.headers.values()]
    return [*sources, *request.extra_cflags, *request.extra_cuda_cflags]


def _included(paths: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in ["#pragma once", *(f"#include <{path}>" for path in paths)])


def _inside(namespace: str, texts: Iterable[str]) -> str:
    return "\n".join([f"namespace {namespace} {{", *texts, "}", ""])


@functools.cache
def _operators(torch_include: Path) -> frozenset[str]:
    folder = torch_include / "ATen" / "ops"
    made = {path.stem for path in folder.glob("*.h") if (folder / f"{path.stem}_ops.h").exists()}
    return frozenset(made | {"from_blob", "tensor"})


@functools.cache
def _takes_lists(torch_include: Path, operator: str) -> bool:
    text = (torch_include / "ATen" / "ops" / f"{operator}.h").read_text()
    return re.search(r"\b(ITensorListRef|List)\b", text) is not None


@functools.cache
def _factories(torch_include: Path) -> dict[str, str]:
    found = _definitions(torch_include / "torch" / "csrc" / "autograd" / "generated" / "variable_factories.h", _FACTORY)
    return {name: text.replace("autograd::make_variable(", "kernelsweep_slim::make_variable(") for name, text in found}


@functools.cache
def _functions(torch_include: Path) -> dict[str, str]:
    return dict(_definitions(torch_include / "ATen" / "Functions.h", _FUNCTION))


def _definitions(path: Path, pattern: re.Pattern[str]) -> Iterable[tuple[str, str]]:
    """Names, and all definitions of each."""
    found: dict[str, str] = {}
    for match in pattern.finditer(path.read_text()):
        found[match[1]] = found.get(match[1], "") + match[0] + "\n"
    return found.items()

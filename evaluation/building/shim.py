"""Replaces torch's load_inline and load inside a candidate's worker by a question to the builder."""

from __future__ import annotations

import dataclasses
import importlib.machinery
import importlib.util
import re
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evaluation.building.request import BuildReply, BuildRequest

Ask = Callable[[BuildRequest], BuildReply]
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]', re.MULTILINE)


class BuildFailed(RuntimeError):
    """The compiler refused the candidate's sources; the message is what it said."""


def install(ask: Ask) -> None:
    """Make `torch.utils.cpp_extension.load_inline` and `.load` ask `ask`. Imports torch."""
    import torch.utils.cpp_extension as stock

    shim = Shim(ask)
    stock.load_inline = shim.load_inline
    stock.load = shim.load


# The arguments of torch 2.11 to 2.13, in their order. What only concerns where and how torch itself would compile
# (build_directory, verbose, keep_intermediates, use_pch) is accepted and changes nothing.
_LOAD_INLINE = (
    "name cpp_sources cuda_sources sycl_sources functions extra_cflags extra_cuda_cflags extra_sycl_cflags "
    "extra_ldflags extra_include_paths build_directory verbose with_cuda with_sycl is_python_module "
    "with_pytorch_error_handling keep_intermediates use_pch no_implicit_headers"
).split()
_LOAD = (
    "name sources extra_cflags extra_cuda_cflags extra_sycl_cflags extra_ldflags extra_include_paths build_directory "
    "verbose with_cuda with_sycl is_python_module is_standalone keep_intermediates"
).split()


class Shim:
    """The two functions as a candidate calls them."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def load_inline(self, *args: Any, **kwargs: Any) -> Any:
        """As documented by torch. Raises BuildFailed, and TypeError or ValueError for arguments that make no sense."""
        given = _bound("load_inline", _LOAD_INLINE, args, kwargs)
        request = BuildRequest(
            name=given["name"],
            cpp_sources=_listed(given["cpp_sources"]),
            cuda_sources=_listed(given.get("cuda_sources")),
            functions=_named(given.get("functions")),
            extra_include_paths=_listed(given.get("extra_include_paths")),
            with_cuda=given.get("with_cuda"),
            is_python_module=given.get("is_python_module", True),
            no_implicit_headers=given.get("no_implicit_headers", False),
            with_pytorch_error_handling=given.get("with_pytorch_error_handling", True),
            extra_cflags=_listed(given.get("extra_cflags")),
            extra_cuda_cflags=_listed(given.get("extra_cuda_cflags")),
            extra_ldflags=_listed(given.get("extra_ldflags")),
        )
        return self.load_request(request)

    def load(self, *args: Any, **kwargs: Any) -> Any:
        """As documented by torch, but for executables. The files, and headers beside them, are read here and now."""
        given = _bound("load", _LOAD, args, kwargs)
        if given.get("is_standalone"):
            raise ValueError("is_standalone=True builds a program; a candidate can only load a module")
        paths = [Path(source) for source in _listed(given["sources"])]
        cuda = [path for path in paths if path.suffix in (".cu", ".cuh")]
        includes = [Path(path) for path in _listed(given.get("extra_include_paths"))]
        private = [folder for folder in includes if not folder.is_relative_to("/usr")]
        request = BuildRequest(
            name=given["name"],
            cpp_sources=[path.read_text() for path in paths if path not in cuda],
            cuda_sources=[path.read_text() for path in cuda],
            extra_include_paths=[str(folder) for folder in includes if folder not in private],
            with_cuda=given.get("with_cuda"),
            is_python_module=given.get("is_python_module", True),
            inline=False,
            headers=_own_headers(paths, private),
            extra_cflags=_listed(given.get("extra_cflags")),
            extra_cuda_cflags=_listed(given.get("extra_cuda_cflags")),
            extra_ldflags=_listed(given.get("extra_ldflags")),
        )
        return self.load_request(request)

    def load_request(self, request: BuildRequest) -> Any:
        """The module, or the path of what is none. Raises BuildFailed."""
        path = self._built(request)
        if request.is_python_module:
            try:
                return _import(request.name, path)
            except ImportError:
                if not request.allow_lite:
                    raise
                return self.load_request(dataclasses.replace(request, allow_lite=False))
        import torch

        torch.ops.load_library(path)  # type: ignore[no-untyped-call]
        return path

    def _built(self, request: BuildRequest) -> str:
        reply = self._ask(request)
        if not reply.ok or reply.path is None:
            raise BuildFailed(f"Error building extension '{request.name}':\n{reply.diagnostics}")
        return reply.path


def _import(name: str, path: str) -> types.ModuleType:
    """A new module object from `path`; an earlier one of the same name stays what it is."""
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None:
        raise ImportError(f"{path} is not an extension module")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[name] = module
    return module


def _bound(function: str, names: Sequence[str], args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name. Raises TypeError and ValueError in the words of a call that went wrong."""
    if len(args) > len(names):
        raise TypeError(f"{function}() takes at most {len(names)} arguments, {len(args)} were given")
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names or name in given:
            what = "got several values for" if name in given else "has no"
            raise TypeError(f"{function}() {what} argument {name!r}; it has {', '.join(names)}")
        given[name] = value
    missing = [name for name in names[:2] if name not in given]
    if missing:
        raise TypeError(f"{function}() needs the argument {missing[0]!r}")
    if given.get("sycl_sources") or given.get("extra_sycl_cflags") or given.get("with_sycl"):
        raise ValueError(f"{function}(): SYCL is not supported; give C++ or CUDA sources")
    return given


def _listed(value: str | Sequence[str] | None) -> list[str]:
    if value is None:
        return []
    return [str(value)] if isinstance(value, (str, Path)) else [str(item) for item in value]


def _named(functions: str | Sequence[str] | dict[str, str] | None) -> dict[str, str] | None:
    if functions is None:
        return None
    if isinstance(functions, dict):
        return {str(name): str(doc) for name, doc in functions.items()}
    if not isinstance(functions, (str, list, tuple)):
        raise ValueError(f"Expected 'functions' to be a list or dict, but was {type(functions)}")
    return {name: name for name in _listed(functions)}


def _own_headers(sources: Sequence[Path], folders: Sequence[Path]) -> dict[str, str]:
    """Headers below the sources' folders and `folders` that the sources include, directly or through each other."""
    roots = list(dict.fromkeys([*(path.parent for path in sources), *folders]))
    found: dict[str, str] = {}
    waiting = [path.read_text() for path in sources]
    while waiting:
        for name in _INCLUDE.findall(waiting.pop()):
            path = next((root / name for root in roots if (root / name).is_file()), None)
            if path is not None and name not in found:
                found[name] = path.read_text()
                waiting.append(found[name])
    return found

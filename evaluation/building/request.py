"""What a candidate asks of the builder, and what it answers. Plain data: both cross a process boundary."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath

SOURCE_BYTES_MAX = 4 * 2**20
"""Bytes of all sources and headers of one request together."""


class RequestError(Exception):
    """A request cannot be built as it stands; the message is one sentence for the candidate's author."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """One call of load_inline or load, normalised. Untrusted: `check` before use."""

    name: str
    cpp_sources: list[str] = field(default_factory=list)
    """load_inline: concatenated into one unit, as torch does. load: one unit each."""
    cuda_sources: list[str] = field(default_factory=list)
    functions: dict[str, str] | None = None
    """C++ functions to bind and their docstrings; None when the sources bind themselves."""
    extra_cflags: list[str] = field(default_factory=list)
    extra_cuda_cflags: list[str] = field(default_factory=list)
    extra_ldflags: list[str] = field(default_factory=list)
    extra_include_paths: list[str] = field(default_factory=list)
    with_cuda: bool | None = None
    is_python_module: bool = True
    no_implicit_headers: bool = False
    with_pytorch_error_handling: bool = True
    inline: bool = True
    """load_inline, else load."""
    headers: dict[str, str] = field(default_factory=dict)
    """load: texts of the candidate's own headers by relative path, to stand beside the sources."""
    allow_lite: bool = True
    """False: torch's own headers as they are, because an object made with fewer could not be imported."""

    @property
    def cuda(self) -> bool:
        """Whether CUDA's headers and libraries take part."""
        return bool(self.cuda_sources) if self.with_cuda is None else self.with_cuda

    def check(self) -> None:
        """Raises RequestError when names or sizes are not what a build can use."""
        if not re.fullmatch(r"[A-Za-z_]\w*", self.name, re.ASCII):
            raise RequestError(f"name={self.name!r} is not a Python identifier; give the extension such a name")
        for function in self.functions or {}:
            if not re.fullmatch(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)*", function, re.ASCII):
                raise RequestError(f"functions: {function!r} is not the name of a C++ function")
        for path in self.headers:
            if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts or "\0" in path:
                raise RequestError(f"header {path!r} must lie below the folder of the sources")
        texts = [*self.cpp_sources, *self.cuda_sources, *self.headers.values()]
        words = [*self.extra_cflags, *self.extra_cuda_cflags, *self.extra_ldflags, *self.extra_include_paths]
        for text in [*texts, *words, *(self.functions or {}).values()]:
            if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
                raise RequestError("a source, flag or docstring has a character that no file can hold")
        if sum(len(text.encode()) for text in texts) > SOURCE_BYTES_MAX:
            raise RequestError(f"the sources are larger than {SOURCE_BYTES_MAX} bytes together")
        if not (self.cpp_sources or self.cuda_sources):
            raise RequestError("cpp_sources and cuda_sources are both empty; give at least one source")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReply:
    """The builder's answer. A failure is the candidate's; faults of ours are exceptions."""

    ok: bool
    path: str | None
    """Of the shared object; None when it failed."""
    name: str
    tier: str
    """`lite`, `slim` or `stock`: which headers built it, or refused it."""
    cached: bool
    wall_s: float
    """Seconds that this request waited."""
    key: str
    diagnostics: str
    """What the compiler said; bounded, first errors first, free of paths of this machine. Empty on success."""

"""Which names torch's own headers would make known, so that a name that is unknown anywhere is told at once.

Asked of a preprocessed unit, in one pass over its tokens: every macro, and every identifier that stands where
declarations stand, in a namespace or a class, outside parameter lists and bodies. That is more than what is declared
there, never less. Made once for a toolchain, in about five seconds, and kept beside the builds.
"""

from __future__ import annotations

import json
import re
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_TOKEN = re.compile(
    r'#[ \t]*define[ \t]+(?P<macro>\w+)[^\n]*|#[^\n]*|R"(?P<mark>[^()\\\s"]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"'
    r"|\b\d(?:[eEpP][+-]|'\w|[\w.])*|'(?:\\.|[^'\\\n])'|(?P<word>[A-Za-z_]\w*)|(?P<symbol>[{}();*&])",
    re.DOTALL,
)
# Torch's headers, and what they and nvcc include of CUDA's where that is installed.
_STOCK = "#include <torch/extension.h>"
_CUDA = ["cuda_runtime.h", "cuda.h", "cuda_fp16.h", "cuda_bf16.h", "cublas_v2.h", "cusparse.h", "cusolverDn.h"]
_TORCH_CUDA = ["c10/cuda/impl/cuda_cmake_macros.h", "ATen/cuda/CUDAContext.h", "c10/cuda/CUDAGuard.h"]
_CLASSES = {"class", "struct", "union"}
_OPENED_BY = {*_CLASSES, "namespace", "enum", "extern"}


@dataclass(frozen=True, slots=True)
class Names:
    """The identifiers of one preprocessed unit."""

    open: frozenset[str]
    """Macros, and names that no namespace or class encloses."""
    of_at: frozenset[str]
    """Those and the ones of namespace at, where calls with tensors are looked up too."""
    all: frozenset[str]
    """Those and the ones of all namespaces and classes."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What torch's headers know, and what the lite headers know in any case."""

    stock: Names
    lite: Names


class VocabularyKeeper:
    """Makes the vocabulary when it is first asked for. Thread-safe."""

    def __init__(self, path: Path, preprocess: Callable[[str, bool], str]) -> None:
        """`preprocess(source, lite)` gives a unit with its macros, as `-E -dD` does."""
        self._path, self._preprocess = path, preprocess
        self._lock = threading.Lock()
        self._made: Vocabulary | None = None

    def get(self) -> Vocabulary:
        """The vocabulary of this toolchain."""
        with self._lock:
            if self._made is None:
                self._made = self._kept() or self._make()
            return self._made

    def _kept(self) -> Vocabulary | None:
        try:
            lists = json.loads(self._path.read_text())
        except (FileNotFoundError, ValueError):
            return None
        sets = [frozenset(names) for names in lists]
        return Vocabulary(Names(*sets[:3]), Names(*sets[3:]))

    def _make(self) -> Vocabulary:
        both = " && ".join(f"__has_include(<{name}>)" for name in [*_CUDA, *_TORCH_CUDA])
        guarded = [(f"__has_include(<{name}>)", [name]) for name in _CUDA] + [(both, _TORCH_CUDA)]
        blocks = ["\n".join([f"#if {when}", *map("#include <{}>".format, names), "#endif"]) for when, names in guarded]
        stock, lite = "\n".join([_STOCK, *blocks, ""]), "\n".join([_STOCK, *blocks[:2], ""])
        made = Vocabulary(names_of(self._preprocess(stock, False)), names_of(self._preprocess(lite, True)))
        lists = [sorted(names) for one in (made.stock, made.lite) for names in (one.open, one.of_at, one.all)]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=self._path.parent, prefix=".names-", delete=False) as file:
            json.dump(lists, file)
        Path(file.name).replace(self._path)
        return made


def names_of(preprocessed: str) -> Names:
    """Macros and the names in declarations of a unit."""
    outside: set[str] = set()
    of_at: set[str] = set()
    inside: set[str] = set()
    scopes = _Scopes()
    for token in _TOKEN.finditer(preprocessed):
        word, symbol = token["word"], token["symbol"]
        if word is not None:
            if scopes.declares():
                (inside if scopes.path else outside).add(word)
                if scopes.path == ["at"]:
                    of_at.add(word)
            scopes.word(word)
        elif symbol is not None:
            scopes.symbol(symbol)
        elif token["macro"] is not None:
            outside.add(token["macro"])
    return Names(frozenset(outside), frozenset(outside | of_at), frozenset(outside | inside))


class _Scopes:
    """Where in the nesting of braces and parentheses a token stands."""

    def __init__(self) -> None:
        self.path: list[str] = []
        """Names of the namespaces and classes around the token, as far as they have one."""
        self._bodies = self._depth = 0
        self._braces: list[str | None] = []
        self._statement: list[str] = []
        self._before = ""

    def declares(self) -> bool:
        """Whether a word here may be declared: the name of a pointer to a function has parentheses of its own."""
        return not self._bodies and (self._depth == 0 or self._before in ("(*", "(&"))

    def word(self, word: str) -> None:
        """Pass a word."""
        self._before = ""
        if self._depth == 0 and (self._statement or word in _OPENED_BY):
            self._statement.append(word)

    def symbol(self, symbol: str) -> None:
        """Pass one of the symbols of `_TOKEN`."""
        self._before = (self._before + symbol)[-2:]
        if symbol == "(":
            self._depth += 1
        elif symbol == ")":
            self._depth -= 1
            self._statement.append(")")
        elif symbol == "{":
            self._braces.append(self._opened())
            self._step(self._braces[-1], 1)
        elif symbol == "}" and self._braces:
            self._step(self._braces.pop(), -1)
        if symbol in "{};" and self._depth == 0:
            self._statement = []

    def _opened(self) -> str | None:
        """What a brace opens: a name to look into, nothing ("": extern "C", an enumeration), or a body (None)."""
        found = _OPENED_BY.intersection(self._statement)
        if self._depth > 0 or not found:
            return None
        if found & _CLASSES:
            return "class"
        if "namespace" in found:
            return self._statement[-1]
        return None if ")" in self._statement else ""

    def _step(self, opened: str | None, change: int) -> None:
        if opened is None:
            self._bodies += change
        elif opened and change > 0:
            self.path.append(opened)
        elif opened:
            self.path.pop()

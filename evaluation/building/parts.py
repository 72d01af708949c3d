"""Which parts of the lite headers a request needs, read off the names in its sources.

The lite headers are small because they leave out what takes compilers long. A name that comes from such a part asks
for it, by a macro. Asking for too much costs a second or two; for too little, the lite compile fails and the
stock headers build the request.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from evaluation.building.request import BuildRequest
from evaluation.building.tokens import identifiers, tokens
from evaluation.building.toolchain import LITE_FOLDER

_TORCH, _STD, _HALF = (f"-DKERNELSWEEP_LITE_{part}" for part in ("TORCH", "STD", "HALF"))
_ACCESSORS = "accessors.inc"
_ROOTS = {"torch", "at", "c10"}
_MACRO = re.compile(r"(AT|C10|TORCH|THO)_[A-Z]\w*")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]((?:ATen|c10|torch)/[^">]+)[">]', re.MULTILINE)
_HALF_NAMES = re.compile(r"Half|BFloat16|AT_DISPATCH_\w*AND\w*")
# Of the standard library, what the lite headers include anyway.
_CHEAP_STD = re.compile(
    r"vector|optional|nullopt|tuple|pair|get|tie|make_(tuple|pair|optional)|move|forward|swap|min|max|numeric_limits"
    r"|initializer_list|size_t|ptrdiff_t|u?int(8|16|32|64)_t|mem(cpy|set|move)|is_\w+|conditional(_t)?|enable_if(_t)?"
    r"|decay(_t)?|remove_\w+|integral_constant|true_type|false_type|declval|printf|f?abs|f?(min|max)f?|exp2?f?|log(2|10|1p)?f?"
    r"|pow|sqrt|tanh|ceil|floor|round|isnan|isinf|isfinite|nullptr_t"
)


def lite_flags(request: BuildRequest) -> list[str]:
    """The macros that choose the parts, for all units of the request."""
    sources = [*request.cpp_sources, *request.cuda_sources, *request.headers.values()]
    flags = {flag for source in sources for flag in _flags(source)}
    return sorted(flags)


def _flags(source: str) -> Iterator[str]:
    names, (known, only_torch) = identifiers(source), _vocabulary()
    qualified = list(_qualified(source))
    of_torch = {name for path in qualified if path[0] in _ROOTS for name in path[1:]}
    of_torch |= {name for name in names if _MACRO.fullmatch(name)}
    opened = {path[1] for path in qualified if path[0] == "using namespace"}
    foreign = [path for path in _INCLUDE.findall(source) if not (LITE_FOLDER / path).is_file()]
    if of_torch - known or names & only_torch or opened & _ROOTS or foreign:
        yield _TORCH
    of_std = {path[1] for path in qualified if path[0] == "std"}
    if any(not _CHEAP_STD.fullmatch(name) for name in of_std) or "std" in opened or "gelu" in of_torch:
        yield _STD
    if any(_HALF_NAMES.fullmatch(name) for name in names):
        yield _HALF


def _qualified(source: str) -> Iterator[list[str]]:
    """Names joined by `::`, as lists; and `using namespace x` as ["using namespace", "x"]."""
    words = [text for kind, text in tokens(source) if kind not in ("comment", "space", "newline", "splice")]
    path: list[str] = []
    for at, word in enumerate(words):
        if word == ":" or not re.match(r"[A-Za-z_]", word):
            continue
        joined = at >= 3 and words[at - 2 : at] == [":", ":"] and path and words[at - 3] == path[-1]
        if joined:
            path.append(word)
        else:
            if len(path) > 1:
                yield path
            path = [word]
        if words[max(at - 2, 0) : at] == ["using", "namespace"]:
            yield ["using namespace", word]
    if len(path) > 1:
        yield path


@functools.cache
def _vocabulary() -> tuple[set[str], set[str]]:
    """Identifiers of the lite headers, and those that only occur where torch's own headers are included."""
    folder = LITE_FOLDER / "kernelsweep_lite"
    texts = {path.name: path.read_text() for path in folder.iterdir()}
    known = {name for file, text in texts.items() if file != _ACCESSORS for name in identifiers(text)}
    return known, identifiers(texts[_ACCESSORS]) - known

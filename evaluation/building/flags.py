"""Which compiler and linker flags a candidate may give.

Flags decide which programs the compiler starts and which files it reads and writes, so they are matched against a
list of what kernels need; everything else is refused with one sentence, before a process is started.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from evaluation.building.request import RequestError

_NAME = r"[A-Za-z_]\w*"
_CODE_GENERATION = (
    "align-functions align-loops associative-math builtin exceptions expensive-optimizations fast-math "
    "finite-math-only fp-contract gcse inline inline-functions inline-limit ivopts lto math-errno omit-frame-pointer "
    "openmp openmp-simd peel-loops permissive PIC pic plt prefetch-loop-arrays reciprocal-math rename-registers "
    "rounding-math rtti schedule-insns schedule-insns2 semantic-interposition signed-zeros split-loops "
    "strict-aliasing tree-loop-vectorize tree-slp-vectorize tree-vectorize trapping-math unroll-all-loops "
    "unroll-loops unsafe-math-optimizations unswitch-loops vect-cost-model visibility wrapv "
    "variable-expansion-in-unroller ipa-pta graphite-identity loop-nest-optimize stack-protector diagnostics-color"
)
_COMPILER = re.compile(
    rf"""
      -O([0-3sgz]|fast)? | -g[0-3]? | -w | -pipe | -pthread | -pedantic | -ansi
    | -std=(c|gnu)\+\+\w+
    | -f(no-)?({"|".join(_CODE_GENERATION.split())})(=[\w.,-]+)?
    | -m[a-z0-9][\w.+=-]*
    | -W(no-)?[a-z][\w+=-]*
    | [-][DU]{_NAME}(=\S*)?
    """,
    re.VERBOSE | re.ASCII,
)
_ARCH = r"(compute|sm)_\w+"
_PTXAS = (
    r"-v|-O[0-4]|--?(verbose|warn-on-spills|warn-on-local-memory-usage|warn-lmem-usage|maxrregcount=\d+"
    r"|allow-expensive-optimizations=\w+|d[ls]cm=\w+|def-(load|store)-cache=\w+|opt-level=\d)"
)
_NVCC = re.compile(
    rf"""
      -O[0-3] | -w | -g | -lineinfo | --generate-line-info | -?-use_fast_math | -?-restrict
    | -?-expt-(relaxed-constexpr|extended-lambda) | -?-extended-lambda
    | -?-(std)=(c|gnu)\+\+\w+ | -?-(fmad|ftz|prec-div|prec-sqrt|split-compile|default-stream)=[\w-]+
    | -?-maxrregcount=\d+ | -?-threads=\d+ | -?-diag-suppress=[\d,]+
    | -?-ptxas-options=({_PTXAS})(,({_PTXAS}))* | -?-(arch|gpu-architecture|gpu-code|code)=(native|{_ARCH}(,{_ARCH})*)
    | -?-(gencode|generate-code)=arch=compute_\w+,code=[\w,\[\]"]+
    | [-][DU]{_NAME}(=\S*)?
    """,
    re.VERBOSE | re.ASCII,
)
_LINKER = re.compile(
    r"-l[A-Za-z0-9_.+-]+ | -fopenmp | -pthread | -shared | -s | -O[0-3s]? | -flto"
    r"| -Wl,(-O[0-3]|--(no-)?as-needed|--gc-sections|-z,(now|relro|origin)|--strip-all|--exclude-libs,ALL)",
    re.VERBOSE | re.ASCII,
)
_WITH_VALUE = {"-Xcompiler", "--compiler-options", "-Xptxas", "--ptxas-options", "-gencode", "--generate-code"}


def compiler_flags(flags: Iterable[str], folders: Sequence[Path]) -> list[str]:
    """The flags for g++, one word each. `-I` is allowed below `folders`. Raises RequestError on any other."""
    return [_check(flag, _COMPILER, "extra_cflags", ("-I",), folders) for flag in _words(flags, "extra_cflags")]


def linker_flags(flags: Iterable[str], folders: Sequence[Path]) -> list[str]:
    """The flags for the link. `-L` and an rpath are allowed below `folders`. Raises RequestError on any other."""
    where = "extra_ldflags"
    prefixes = ("-L", "-Wl,-rpath,", "-Wl,-rpath=")
    return [_check(flag, _LINKER, where, prefixes, folders) for flag in _words(flags, where)]


def nvcc_flags(flags: Iterable[str], folders: Sequence[Path]) -> list[str]:
    """The flags for nvcc, one word each, those behind -Xcompiler included. Raises RequestError on any other."""
    where = "extra_cuda_cflags"
    words = iter(_words(flags, where))
    out: list[str] = []
    for word in words:
        option, _, value = word.partition("=")
        separate = word in _WITH_VALUE
        value = next(words, "") if separate else value
        if option in ("-Xcompiler", "--compiler-options"):
            for part in value.split(","):
                _check(part.strip("'\""), _COMPILER, where, (), folders)
        else:
            joined = f"{option}={value}" if separate else word
            _check(joined.replace("-Xptxas", "--ptxas-options", 1), _NVCC, where, ("-I",), folders)
        out += [word, value] if separate else [word]
    return out


def include_folders(paths: Iterable[str], folders: Sequence[Path]) -> list[str]:
    """`extra_include_paths` as flags; each must lie below one of `folders`. Raises RequestError otherwise."""
    return ["-I" + str(_below(path, folders, "extra_include_paths")) for path in paths]


def _words(flags: Iterable[str], where: str) -> list[str]:
    try:
        return [word for flag in flags for word in shlex.split(flag)]
    except ValueError as error:
        raise RequestError(f"{where}: unbalanced quotes in {list(flags)!r}") from error


def _check(flag: str, allowed: re.Pattern[str], where: str, prefixes: Sequence[str], folders: Sequence[Path]) -> str:
    for prefix in prefixes:
        if flag.startswith(prefix):
            return prefix + str(_below(flag.removeprefix(prefix), folders, where))
    if not allowed.fullmatch(flag):
        raise RequestError(
            f"{where}: the flag {flag!r} is not allowed; optimisation (-O, -f, -m), warnings, -D, -std and -l are"
        )
    return flag


def _below(path: str, folders: Sequence[Path], where: str) -> Path:
    resolved = Path(path).resolve()
    if not Path(path).is_absolute() or not any(resolved.is_relative_to(folder) for folder in folders):
        allowed = ", ".join(str(folder) for folder in folders)
        raise RequestError(f"{where}: {path!r} is not a folder of the toolchain; allowed is what lies below {allowed}")
    return resolved

"""Whose an error is: the author's own under any headers, or perhaps only for want of something in the lite ones.

The lite headers declare a part of what torch's own do, with the same meaning. So an error that they give is torch's
too, unless something takes part in it that torch's headers may know and they do not: a name, or an overload or
conversion of one of torch's types. What an error says is read off the two compilers' fixed forms, in English
(LC_ALL=C): neither gives its errors numbers. Whatever is not recognised is doubtful, and torch's own headers decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evaluation.building.tokens import identifiers, tokens
from evaluation.building.vocabulary import Vocabulary

_GNU = re.compile(r"^(?P<file>[^\s:(]+):(?P<line>\d+):(?P<column>\d+): (?P<fatal>fatal )?error: (?P<text>.*)$")
_EDG = re.compile(r"^(?P<file>[^\s:(]+)\((?P<line>\d+)\): (?P<fatal>catastrophic )?error: (?P<text>.*)$")
_PTXAS = re.compile(r"^ptxas (?:\S+, line \d+; )?(?:error|fatal) *:")
_UNDEFINED = re.compile(r"^(?:\S*ld: )?\S+: undefined reference to [`']([^']+)'$")

# The name that is not known, in the words of g++ and of nvcc's front end.
_UNKNOWN = [
    re.compile(pattern)
    for pattern in (
        r"^'(?:[\w:]+::)?(?P<name>\w+)' (?:was not declared|has not been declared|does not name a type)",
        r"^'(?P<name>\w+)' (?:is not a member of|in .* does not name a)",
        r"^'.*' has no member named '(?P<name>\w+)'",
        r"^there are no arguments to '(?P<name>\w+)' that depend on a template parameter",
        r'^identifier "(?P<name>\w+)" is undefined$',
        r'^(?:namespace|class|struct|enum) ".*" has no (?:actual )?member "(?P<name>\w+)"',
    )
]
_MISSING_FILE = re.compile(r'^(?:\S+: No such file or directory|cannot open source file ".*")')
_SYNTAX = re.compile(r"^(?:expected|unexpected|unterminated|missing)\b")
_TENSOR = re.compile(r"\b(?:at|torch)::Tensor\b(?!::| *\()")
_TORCHS = re.compile(r"\b(?:at|torch|c10|caffe2|pybind11|py|kernelsweep_lite)::")
_OPERATOR = re.compile(r"\boperator\b")
_ROOTS = {"at", "torch", "c10", "caffe2"}
# Members of a tensor that the lite headers have with every overload.
_COMPLETE = {"data_ptr", "size", "sizes", "stride", "strides", "numel", "dim", "device", "is_cuda", "is_cpu"}


@dataclass(frozen=True, slots=True)
class Fault:
    """One error of a compiler: where, what, and the lines of output that it takes."""

    file: str
    line: int
    text: str
    """What it says, with the types and candidates that the compiler adds, without the echoed source."""
    fatal: bool
    first: int
    """Index of its first line in the output."""


def errors_of_author(output: str, files: Mapping[str, str], known: Vocabulary) -> str | None:
    """The output up to the first error that torch's headers might not give; None if that is the very first.

    `files` are the sources as they were compiled, by the names that the output uses. `known` as for the toolchain.
    """
    lines = output.splitlines()
    if any(_PTXAS.match(line) for line in lines):
        return output  # the front end took the program, and what it made of the kernels is the author's alone
    undefined = [found[1] for line in lines if (found := _UNDEFINED.match(line))]
    if undefined:
        return output if all(_is_authors_symbol(symbol, files, known) for symbol in undefined) else None
    faults = list(_faults(lines, files))
    for number, fault in enumerate(faults):
        if not _is_authors(fault, files, known):
            return "\n".join(lines[: fault.first]) if number else None
    return output if faults else None


def _faults(lines: list[str], files: Mapping[str, str]) -> Iterator[Fault]:
    starts = [(at, found) for at, line in enumerate(lines) if (found := _GNU.match(line) or _EDG.match(line))]
    for number, (at, found) in enumerate(starts):
        end = starts[number + 1][0] if number + 1 < len(starts) else len(lines)
        if found.re is _GNU:
            more = [line for line in lines[at + 1 : end] if ": note: candidate" in line]
        else:
            more = _types(lines[at + 1 : end], _row(files, found["file"], int(found["line"])))
        text = "\n".join([found["text"], *more])
        yield Fault(found["file"], int(found["line"]), text, found["fatal"] is not None, at)


def _types(lines: list[str], source: str) -> list[str]:
    """What nvcc's front end adds to an error before it echoes the source line."""
    out = []
    for line in lines:
        if not line.strip() or line.strip() == source.strip():
            break
        out.append(line)
    return out


def _row(files: Mapping[str, str], file: str, line: int) -> str:
    rows = files.get(file, "").split("\n")
    return rows[line - 1] if 0 < line <= len(rows) else ""


def _is_authors(fault: Fault, files: Mapping[str, str], known: Vocabulary) -> bool:
    if fault.file not in files:
        return False
    if fault.fatal:
        # All folders of torch's are searched with the lite headers too.
        return _MISSING_FILE.match(fault.text) is not None
    source = files[fault.file]
    # Where a tensor takes part, a call is looked up among torch's functions too, whatever its name's scope.
    by_argument = _TENSOR.search(fault.text) is not None
    # A mark is missed only at the next one, on the line behind.
    near = _Statement(source, fault.line, with_previous=_SYNTAX.match(fault.text) is not None)

    def may_be_torchs(name: str) -> bool:
        if near.is_inside(name):
            return name in known.stock.all
        return name in (known.stock.of_at if by_argument and near.is_called(name) else known.stock.open)

    unknown = next((found["name"] for pattern in _UNKNOWN if (found := pattern.match(fault.text))), None)
    if unknown is not None:
        by_argument = True
        return not may_be_torchs(unknown)
    if any(may_be_torchs(name) for name in near.words - known.lite.all):
        return False
    return _SYNTAX.match(fault.text) is not None or not _concerns_torch(fault.text, near, known)


def _concerns_torch(text: str, near: _Statement, known: Vocabulary) -> bool:
    """Whether overloads, conversions or members of torch's may take part in an error about types."""
    # A tensor converts to nothing but torch's own types, and is made of nothing else.
    others = _TENSOR.sub("", text)
    if _TORCHS.search(others):
        return True
    if others != text:
        return _OPERATOR.search(text) is not None
    if re.search("['\"]", text):
        return False
    # Where nothing is quoted, what is called may be torch's.
    return any(near.is_called(name, as_member=True) for name in (near.words & known.lite.all) - _COMPLETE)


class _Statement:
    """The tokens of a line, and of the one with code in front of it where asked."""

    def __init__(self, source: str, line: int, *, with_previous: bool) -> None:
        rows = source.split("\n")[: max(line, 1)]
        before = next((row for row in reversed(rows[:-1]) if with_previous and row.split("//")[0].strip()), "")
        found = [(kind, text) for kind, text in tokens(f"{before}\n{rows[-1]}") if kind in ("word", "symbol")]
        self._tokens = ["", *(text for _, text in found), ""]
        self.words = {text for kind, text in found if kind == "word"}
        self._opens_torch = re.search(r"\busing\s+(?:namespace\s+)?(?:at|torch|c10|caffe2)\b", source) is not None

    def is_inside(self, name: str) -> bool:
        """Whether a name is looked up inside namespaces or classes: it is qualified, or torch's are opened."""
        return self._opens_torch or any(before in (":", ".", ">") for before, _ in self._around(name))

    def is_called(self, name: str, *, as_member: bool = False) -> bool:
        """Whether arguments follow, or those of a template; `as_member`: of a qualified name."""
        return any(
            after in ("(", "<") and (not as_member or self._opens_torch or before in (":", ".", ">"))
            for before, after in self._around(name)
        )

    def _around(self, name: str) -> list[tuple[str, str]]:
        texts = self._tokens
        return [(texts[at - 1], texts[at + 1]) for at in range(1, len(texts) - 1) if texts[at] == name]


def _is_authors_symbol(symbol: str, files: Mapping[str, str], known: Vocabulary) -> bool:
    """Whether what the linker did not find is a C++ function of the sources' own.

    With torch's headers the link does not ask: a symbol of a library that torch has loaded is found at the import.
    """
    name, parenthesis, _ = re.sub(r"<.*", "(", symbol, flags=re.DOTALL).partition("(")
    first = name.split("::")[0].split(" ")[-1]
    used = any(first in identifiers(text) for text in files.values())
    return bool(parenthesis) and first not in {*_ROOTS, "std"} | known.stock.open and used

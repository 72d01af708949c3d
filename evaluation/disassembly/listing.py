"""Reads what cuobjdump prints. Its input was made by a candidate: what does not look as it should is left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from evaluation.disassembly.instructions import Mix

_ARCH = re.compile(r"^arch = (sm_\w+)$")
_CODE_ARCH = re.compile(r"^\s*code for (sm_\w+)$")
_USAGE_OF = re.compile(r"^ Function (\S+):$")
_USAGE = re.compile(r"^\s+REG:(\w+) STACK:(\w+) SHARED:(\w+)")
_FUNCTION = re.compile(r"^\s*Function : (\S+)$")
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*(?:\.\w+)*)")

Where = tuple[str, str]
"""Architecture, and name as the linker knows it."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources of one function; None where cuobjdump states no number."""

    registers: int | None
    stack_bytes: int | None
    shared_bytes: int | None


@dataclass(slots=True)
class Code:
    """One function's instructions."""

    arch: str
    name: str
    mix: Mix = field(default_factory=Mix)


def usages(text: str) -> dict[Where, Usage]:
    """Out of `cuobjdump -res-usage`. Spills are in STACK; LOCAL is 0 whatever was spilled."""
    found: dict[Where, Usage] = {}
    arch = name = ""
    for line in text.splitlines():
        if match := _ARCH.match(line):
            arch, name = match[1], ""
        elif match := _USAGE_OF.match(line):
            name = match[1]
        elif name and (match := _USAGE.match(line)):
            found[arch, name] = Usage(*(int(word) if word.isdecimal() else None for word in match.groups()))
            name = ""
    return found


def codes(text: str) -> Iterator[Code]:
    """Out of `cuobjdump -sass`, in its order; functions without an instruction are left out."""
    arch, code = "", None
    for line in text.splitlines():
        if match := _INSTRUCTION.match(line):
            if code is not None:
                code.mix.add(match[1])
        elif match := _FUNCTION.match(line):
            if code is not None and code.mix.total:
                yield code
            code = Code(arch, match[1])
        elif match := _CODE_ARCH.match(line):
            arch = match[1]
    if code is not None and code.mix.total:
        yield code

"""What a compiler said, made fit for the candidate's author."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

DIAGNOSTICS_CHARS_MAX = 6000
_FIRST_ERROR = re.compile(r"^(\S+:\d+:\d+: (fatal )?error: |[^\s(]+\(\d+\): (catastrophic )?error: |ptxas .*error)")
_ORIGIN = re.compile(r"^(In file included from |\s+from )")
_ECHO = re.compile(r"^ +\d* \|")
_TEMPORARY = re.compile(r"/tmp/tmpxft_\w+-\w+_")


def presentable(output: str, hidden: Iterable[Path]) -> str:
    """First errors first, without this machine's folders and without lines that the builder wrote; bounded."""
    text = _TEMPORARY.sub("", output)
    for folder in sorted({str(path) for path in hidden}, key=len, reverse=True):
        text = text.replace(folder + "/", "").replace(folder, ".")
    lines = [line for line in text.splitlines() if line.strip() and not _ORIGIN.match(line)]
    lines = list(_without_binding(lines))
    first = next((i for i, line in enumerate(lines) if _FIRST_ERROR.match(line)), 0)
    # What stands before the first error are warnings; the line before it says in which function it is.
    text = "\n".join(lines[max(0, first - 1) :])
    if len(text) > DIAGNOSTICS_CHARS_MAX:
        text = text[:DIAGNOSTICS_CHARS_MAX].rpartition("\n")[0] + "\n... (more errors follow)"
    return text


def _without_binding(lines: Iterable[str]) -> Iterable[str]:
    """Without the echo of source lines that bind the functions; what is underlined in them goes too."""
    in_binding = False
    for line in lines:
        echo = _ECHO.match(line) is not None
        in_binding = echo and (in_binding or "kernelsweep_lite::" in line)
        if not in_binding:
            yield line

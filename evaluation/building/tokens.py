"""C++ sources as tokens: enough of the lexer to ignore comments and white space without touching a literal."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""
      (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s"]{0,16})\(.*?\)(?P=mark)")
    | (?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
    | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"?)
    | (?P<number>\.?\d(?:[eEpP][+-]|'[\w]|[\w.])*)
    | (?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\\n])*'?)
    | (?P<word>[A-Za-z_$]\w*|[^\x00-\x7f]+)
    | (?P<splice>\\\n)
    | (?P<newline>\n)
    | (?P<space>[ \t\r\f\v]+)
    | (?P<symbol>/(?![/*])|[^\w\s"'/$\\]|\\)
    """,
    re.VERBOSE | re.DOTALL,
)
_UNFINISHED = re.compile(r"(?P<comment>/\*.*)", re.DOTALL)


def tokens(source: str) -> Iterator[tuple[str, str]]:
    """(kind, text) of every token. An unfinished comment runs to the end, as for a compiler."""
    source = source.replace("\r\n", "\n")
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at) or _UNFINISHED.match(source, at)
        if match is None:
            yield "symbol", source[at]
            at += 1
        else:
            yield next(kind for kind, text in match.groupdict().items() if text is not None), match.group()
            at = match.end()


def normalise(source: str) -> str:
    """The source with every run of white space and comments as one space.

    Whether there was space at all is kept, because `#` makes it visible to the program; the lines of directives are
    kept, because they end with the line. Literals are kept to the byte.
    """
    out: list[str] = []
    in_directive = False
    line_is_blank = True
    gap = ""
    for kind, text in tokens(source):
        if kind == "newline" and in_directive:
            in_directive, line_is_blank, gap = False, True, "\n"
        elif kind in ("newline", "space", "splice", "comment"):
            line_is_blank = line_is_blank or kind == "newline"
            gap = gap or " "
        else:
            if text == "#" and line_is_blank:
                in_directive, gap = True, "\n"
            out.append(gap + text if out else text)
            line_is_blank, gap = False, ""
    return "".join(out)


def identifiers(source: str) -> set[str]:
    """Every identifier and keyword outside literals and comments."""
    return {text for kind, text in tokens(source) if kind == "word"}

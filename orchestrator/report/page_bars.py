"""Shares as bars: what warps wait for, and which kernels a forward's time goes to."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from evaluation.verdict import ProfiledKernel
from orchestrator.report.page_format import duration, significant
from orchestrator.report.page_svg import picture, rect, text

_LEFT, _RIGHT = 4.0, 356.0
_ROW = 31.0
_CHAR, _MONO_CHAR = 6.6, 7.3
_TOP_STALLS = 5
_MOST_KERNELS = 12
_STALL, _PERCENT, _CYCLES = "stall_", "_percent", "_cycles"
SELECTED = "selected"
"""The state of a warp that issues an instruction: no stall."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One share of a whole, 0 to 1, with its name and its figures."""

    name: str
    figures: str
    share: float
    kind: str = "candidate"
    code: bool = False
    """Whether the name is one of a program, in a font whose characters are equally wide."""


def bars_picture(label: str, bars: Sequence[Bar]) -> Markup:
    """Draw each bar under its name and figures; a name that is too long is cut in its middle."""
    parts: list[Markup] = []
    for row, bar in enumerate(bars):
        y = row * _ROW
        width = _MONO_CHAR if bar.code else _CHAR
        room = int((_RIGHT - _LEFT - _CHAR * len(bar.figures) - 8) / width)
        parts.append(text(_LEFT, y + 12, cut(bar.name, room), kind="label code" if bar.code else "label"))
        parts.append(text(_RIGHT, y + 12, bar.figures, "end", "label"))
        parts.append(rect((_LEFT, y + 17, _RIGHT - _LEFT, 7), "track"))
        share = min(1.0, max(0.0, bar.share))
        if share > 0:
            title = f"{bar.name}: {bar.figures}"
            parts.append(rect((_LEFT, y + 17, max(0.5, share * (_RIGHT - _LEFT)), 7), f"bar {bar.kind}", title))
    said = "; ".join(f"{bar.name} {bar.figures}" for bar in bars)
    return picture(_ROW * len(bars), f"{label}: {said}", parts, "plot")


def cut(words: str, room: int) -> str:
    """Leave out the middle of what is wider than `room` characters; East Asian ones are two wide."""
    if _wide(words) <= room:
        return words
    head, tail = "", ""
    for first, last in zip(words, reversed(words), strict=True):
        if _wide(head + first + tail) >= room:
            break
        head += first
        if _wide(head + last + tail) >= room:
            break
        tail = last + tail
    return f"{head}…{tail}"


def _wide(words: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in words)


def stalls(metrics: Mapping[str, float]) -> dict[str, float]:
    """State of a warp -> its share in percent, the largest first; the one of issuing is not among them."""
    found = {
        key.removeprefix(_STALL).removesuffix(_PERCENT): value
        for key, value in metrics.items()
        if key.startswith(_STALL) and key.endswith(_PERCENT)
    }
    found.pop(SELECTED, None)
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def stalls_picture(metrics: Mapping[str, float]) -> Markup | None:
    """The five largest stalls, the rest of them, and issuing; None where no state is known."""
    found = stalls(metrics)
    names = list(found)
    rest = names[_TOP_STALLS:]
    groups = [(name, [name], "candidate") for name in names[:_TOP_STALLS]]
    if rest:
        groups.append((f"{len(rest)} other stalls" if len(rest) > 1 else rest[0], rest, "rest"))
    if f"{_STALL}{SELECTED}{_PERCENT}" in metrics:
        groups.append((f"issuing ({SELECTED})", [SELECTED], "good"))
    return (
        bars_picture("Where warps spend their cycles", [_stall_bar(metrics, *group) for group in groups])
        if groups
        else None
    )


def _stall_bar(metrics: Mapping[str, float], name: str, states: Sequence[str], kind: str) -> Bar:
    percent = sum(metrics[f"{_STALL}{state}{_PERCENT}"] for state in states)
    cycles = [metrics.get(f"{_STALL}{state}{_CYCLES}") for state in states]
    known = [value for value in cycles if value is not None]
    figures = f"{significant(percent, 3)} %"
    if len(known) == len(states):
        figures += f" · {sum(known):.2f} cycles"
    return Bar(name=name, figures=figures, share=percent / 100, kind=kind)


def stalled_cycles(metrics: Mapping[str, float]) -> float | None:
    """Cycles of a warp for each instruction issued, all states together; None where they are not known."""
    found = [value for key, value in metrics.items() if key.startswith(_STALL) and key.endswith(_CYCLES)]
    return sum(found) if found else None


def kernels_picture(kernels: Sequence[ProfiledKernel]) -> Markup | None:
    """The share of each launch in a forward's device time, in their order; None where there are no two launches."""
    total_us = sum(kernel.device_time_us for kernel in kernels)
    if len(kernels) < 2 or total_us <= 0:
        return None
    most = len(kernels) if len(kernels) <= _MOST_KERNELS else _MOST_KERNELS - 1
    by_time = sorted(range(len(kernels)), key=lambda at: -kernels[at].device_time_us)
    shown = sorted(by_time[:most])
    bars = [
        _kernel_bar(f"{at + 1}. {short_name(kernels[at].name)}", kernels[at].device_time_us, total_us, code=True)
        for at in shown
    ]
    rest = by_time[most:]
    if rest:
        rest_us = sum(kernels[at].device_time_us for at in rest)
        bars.append(_kernel_bar(f"{len(rest)} other launches", rest_us, total_us, code=False))
    return bars_picture("Device time of each launch of one forward", bars)


def short_name(name: str) -> str:
    """A kernel's name without the type that it returns and its parameters."""
    name = name.removeprefix("void ")
    depth = 0
    for at in range(len(name) - 1, 0, -1) if name.endswith(")") else ():
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if depth == 0:
            return name[:at]
    return name


def _kernel_bar(name: str, device_us: float, total_us: float, *, code: bool) -> Bar:
    share = device_us / total_us
    return Bar(
        name=name,
        figures=f"{duration(device_us)} · {significant(100 * share, 3)} %",
        share=share,
        kind="candidate" if code else "rest",
        code=code,
    )

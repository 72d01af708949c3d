"""Numbers as a person reads them. Units are chosen by magnitude, and what is unknown says so."""

from __future__ import annotations

import math
from collections.abc import Sequence

UNKNOWN = "unknown"
DEVICE_TIME, END_TO_END = "device time", "end to end"
"""The two kinds of time of a call on a device, as they are called wherever both are shown."""
_TIME_UNITS = (("ns", 1e-3), ("µs", 1.0), ("ms", 1e3), ("s", 1e6))
_BYTE_UNITS = (("B", 1.0), ("KiB", 1024.0), ("MiB", 1024.0**2), ("GiB", 1024.0**3))


def significant(value: float, digits: int = 4) -> str:
    """Round to `digits` significant digits, without an exponent between 1e-3 and 1e6; zero is `0`."""
    if value == 0:
        return "0"
    if not 1e-3 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}e}"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, decimals):.{max(0, decimals)}f}"


def time_unit(values_us: Sequence[float]) -> tuple[str, float]:
    """Return the unit that suits the largest of `values_us`, and how many microseconds it has."""
    largest = max((abs(value) for value in values_us), default=0.0)
    return next(((unit, size) for unit, size in reversed(_TIME_UNITS) if largest >= size), _TIME_UNITS[0])


def durations(values_us: Sequence[float], separator: str = " / ") -> str:
    """Several durations in one unit: `1.234 / 1.201 / 0.045 µs`."""
    unit, size = time_unit(values_us)
    return f"{separator.join(significant(value / size) for value in values_us)} {unit}"


def duration(value_us: float) -> str:
    """One duration: `845.0 ns`, `1.230 µs`, `12.30 ms`, `2.100 s`."""
    return durations([value_us])


def duration_interval(value_us: float, low_us: float, high_us: float) -> str:
    """A duration and its interval in one unit: `1.230 [1.201, 1.260] µs`."""
    unit, size = time_unit([value_us])
    value, low, high = (significant(part / size) for part in (value_us, low_us, high_us))
    return f"{value} [{low}, {high}] {unit}"


def seconds(value_s: float) -> str:
    """Wall time: `45 ms`, `9.5 s`, `19 min 24 s`, `2 h 05 min`."""
    if value_s < 1:
        return f"{value_s * 1e3:.0f} ms"
    if value_s < 120:
        return f"{value_s:.1f} s"
    minutes, rest_s = divmod(round(value_s), 60)
    if minutes < 120:
        return f"{minutes} min {rest_s:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def byte_size(value: float) -> str:
    """Bytes in binary units: `12.00 KiB`."""
    unit, size = next(((unit, size) for unit, size in reversed(_BYTE_UNITS) if abs(value) >= size), _BYTE_UNITS[0])
    return f"{significant(value / size)} {unit}" if size > 1 else f"{value:.0f} B"


def speedup(value: float) -> str:
    """`1.45x`."""
    return f"{significant(value, 3)}x"


def speedup_interval(value: float, low: float, high: float) -> str:
    """`1.45x [1.41, 1.49]`."""
    return f"{significant(value, 3)}x [{significant(low, 3)}, {significant(high, 3)}]"


def count(value: int | None) -> str:
    """`14,530`, or `unknown`."""
    return UNKNOWN if value is None else f"{value:,}"


def dollars(value: float | None) -> str:
    """`$0.0123`, or `unknown`: a price that nobody stated is not 0."""
    if value is None:
        return UNKNOWN
    return f"${value:.2f}" if value == 0 or value >= 1 else f"${significant(value, 3)}"


def error(value: float) -> str:
    """An error of a value: `8.34e-07`, `0`."""
    return "0" if value == 0 else f"{value:.2e}"


def total_tokens(prompt: int | None, completion: int | None) -> int | None:
    """Tokens in and out together. Reasoning and cached tokens are parts of these two, so they are not added again."""
    return None if prompt is None or completion is None else prompt + completion

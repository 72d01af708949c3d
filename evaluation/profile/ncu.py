"""Nsight Compute's command line, and its CSV. What it says is checked; what went wrong is one sentence."""

from __future__ import annotations

import csv
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_FIRST_COLUMN, _KERNEL = "ID", "Kernel Name"
_BASE_UNITS = {
    "": 1.0, "%": 1.0, "byte": 1.0, "inst": 1.0, "sector": 1.0, "request": 1.0, "warp": 1.0, "block": 1.0,
    "thread": 1.0, "register/thread": 1.0, "byte/block": 1.0, "cycle": 1.0, "ops": 1.0, "inst/warp": 1.0,
    "ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9,
}  # fmt: skip
"""To bytes, nanoseconds and plain numbers."""
_SCALED = re.compile(r"^([KMGT])(byte|byte/block)$")
_THOUSANDS = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_USUAL_PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/ncu")
_KNOWN = (
    ("ERR_NVGPUCTRPERM", "the driver gives hardware counters to administrators alone (ERR_NVGPUCTRPERM)"),
    ("No kernels were profiled", "ncu saw no kernel in the forward"),
    ("ResourceUnavailable", "another profiler holds the hardware counters"),
)


class NcuError(Exception):
    """There are no counters. One sentence: why."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel that ran, in the order of launches."""

    name: str
    values: dict[str, float]
    """By ncu's names: in bytes, nanoseconds, percent or plain numbers. What a GPU has not is missing."""


def find() -> Path:
    """The program. Raises NcuError where there is none."""
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    for place in (shutil.which("ncu"), *(f"{home}/bin/ncu" for home in homes), *_USUAL_PLACES):
        if place and os.access(place, os.X_OK):
            return Path(place)
    raise NcuError("ncu (Nsight Compute) is not installed here")


def command(ncu: Path, log: Path, metrics: Sequence[str], program: Sequence[str]) -> list[str]:
    """Count the kernels that `program` runs between cudaProfilerStart and cudaProfilerStop; the CSV goes to `log`.

    Clocks are left as they are in timing, caches are emptied before every pass.
    """
    return [
        str(ncu), "--config-file", "off", "--target-processes", "all", "--profile-from-start", "off",
        "--clock-control", "none", "--cache-control", "all", "--csv", "--page", "raw", "--print-units", "base",
        "--print-fp", "--log-file", str(log), "--metrics", ",".join(metrics), *program,
    ]  # fmt: skip


def parse(text: str) -> list[Kernel]:
    """The kernels in what ncu wrote. Raises NcuError, with ncu's own words where it says what is wrong."""
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith(f'"{_FIRST_COLUMN}",')), None)
    if start is None:
        raise NcuError(_refusal(text))
    header, units, *rows = csv.reader(line for line in lines[start:] if not line.startswith("=="))
    if _KERNEL not in header or units[:1] != [""]:
        raise NcuError("ncu's output is not its raw page")
    kernels = [Kernel(row[header.index(_KERNEL)], dict(_values(header, units, row))) for row in rows if row]
    if not kernels:
        raise NcuError(_refusal(text))
    return kernels


def _values(header: list[str], units: list[str], row: list[str]) -> Iterator[tuple[str, float]]:
    if len(row) != len(header):
        raise NcuError(f"a row of ncu's output has {len(row)} columns, its head {len(header)}")
    for name, unit, text in zip(header, units, row, strict=True):
        if "__" not in name:
            continue
        try:
            value = float(text.replace(",", ""))
        except ValueError:
            # `n/a`, nothing, or `no data`.
            continue
        if value == value:
            yield name, value * _factor(name, unit)


def _factor(name: str, unit: str) -> float:
    scaled = _SCALED.match(unit)
    if scaled:
        return _THOUSANDS[scaled[1]]
    if unit not in _BASE_UNITS and name.startswith(("gpu__time", "dram__bytes", "launch__shared_mem")):
        raise NcuError(f"ncu gives {name} in an unknown unit, {unit}")
    return _BASE_UNITS.get(unit, 1.0)


def _refusal(text: str) -> str:
    for sign, meaning in _KNOWN:
        if sign in text:
            return meaning
    errors = [line.removeprefix("==ERROR==").strip() for line in text.splitlines() if line.startswith("==ERROR==")]
    return f"ncu failed: {errors[0][:300]}" if errors else "ncu wrote no figures"

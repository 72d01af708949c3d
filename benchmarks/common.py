"""What every benchmark's JSON begins with, and how its measures are written down."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
Json = dict[str, Any]


def header(*packages: str, commit: str | None = None) -> Json:
    """Machine, versions, commit and date of a run without figures yet; the commit is the checkout's unless given."""
    cpu = [line.split(": ")[1] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    return {
        "machine": {"cpu": cpu[0], "cores": len(os.sched_getaffinity(0)), "load_1_min": os.getloadavg()[0]},
        "versions": {"python": platform.python_version()} | {name: metadata.version(name) for name in packages},
        "commit": commit or described_commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "measures": [],
        "samples": {},
    }


def described_commit() -> str:
    """The checkout's commit, marked when it has changes."""
    described = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(described, capture_output=True, text=True, check=True).stdout.strip()


def measure(name: str, value: float, unit: str, sign: str | None = None, bar: float | None = None) -> Json:
    """One figure and the bar that it is held to: `sign` is `<`, `<=`, `>` or `>=`; without a bar it is informative."""
    compare = {"<": value.__lt__, "<=": value.__le__, ">": value.__gt__, ">=": value.__ge__}
    holds = None if sign is None or bar is None else bool(compare[sign](bar))
    shown = None if sign is None or bar is None else f"{sign} {bar:g}"
    return {"name": name, "value": value, "unit": unit, "bar": shown, "holds": holds}


def write(report: Json, out: Path) -> None:
    """Keep the JSON, and show its measures."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report, indent=1) + "\n")
    show(report)


def show(report: Json) -> None:
    """Its measures, as a table on stdout."""
    for one in report["measures"]:
        value, bar = one["value"], one["bar"] or ""
        sys.stdout.write(f"{value:12.4g} {one['unit']:3} {bar:>8} {one['holds']!s:5} {one['name']}\n")


def building_header(commit: str) -> Json:
    """The same, with what native builds depend on."""
    import torch

    from evaluation.building.toolchain import Toolchain

    report, toolchain = header("torch", commit=commit), Toolchain.find()
    for name, program, line in (("c++", toolchain.cxx, 0), ("nvcc", toolchain.nvcc, -1)):
        if program is not None:
            shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
            report["versions"][name] = shown.splitlines()[line]
    report["machine"]["gpu"] = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return report

"""Where a verdict is made, for the record."""

from __future__ import annotations

import functools
import platform
import shutil
import subprocess
from pathlib import Path

import torch

from evaluation.sandbox.sandbox import Level
from evaluation.verdict import Environment


def describe(device: str, threads: int, level: Level) -> Environment:
    """This machine and its software, as they are seen by the judge."""
    return Environment(
        device=device,
        device_name=_device_name(),
        threads=threads,
        torch=torch.__version__,
        python=platform.python_version(),
        compiler=_compiler(),
        platform=platform.platform(),
        sandbox_level=int(level),
        sandbox=level.describe(),
    )


@functools.cache
def _device_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Model")):
            return line.split(":", 1)[1].strip()
    return platform.machine()


@functools.cache
def _compiler() -> str:
    """First line of `c++ --version`; empty where there is no compiler."""
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        return ""
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]

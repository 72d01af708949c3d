"""Where a verdict is made, for the record."""

from __future__ import annotations

import functools
import platform
import shutil
import subprocess
from pathlib import Path

import torch

from evaluation.building.toolchain import Toolchain, ToolchainError
from evaluation.device.nvml import Device, DeviceStateAbsent
from evaluation.sandbox.sandbox import Level
from evaluation.verdict import Environment


def describe(device: str, threads: int, level: Level) -> Environment:
    """This machine and its software, as they are seen by the judge. `device`: as torch names it."""
    on_gpu = torch.device(device).type == "cuda"
    name, driver = _gpu(device) if on_gpu else (_cpu_name(), "")
    return Environment(
        device=device,
        device_name=name,
        threads=threads,
        torch=torch.__version__,
        python=platform.python_version(),
        compiler=_compiler(),
        platform=platform.platform(),
        sandbox_level=int(level),
        sandbox=level.describe(),
        driver=driver,
        cuda=(torch.version.cuda or "") if on_gpu else "",
        nvcc=_nvcc() if on_gpu else "",
        host=_cpu_name() if on_gpu else "",
    )


@functools.cache
def _gpu(device: str) -> tuple[str, str]:
    """Name, and version of the driver; that is empty where NVML does not tell it."""
    name = torch.cuda.get_device_name(device)
    try:
        with Device(gpu_uuid(device)) as opened:
            return name, opened.driver or ""
    except DeviceStateAbsent:
        return name, ""


def gpu_uuid(device: str = "cuda") -> str:
    """As NVML and lanes name it: `GPU-xxxxxxxx-...`."""
    return f"GPU-{torch.cuda.get_device_properties(device).uuid}"


@functools.cache
def _cpu_name() -> str:
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


@functools.cache
def _nvcc() -> str:
    """The line with the release, of the `nvcc --version` that builds use; empty where there is none."""
    try:
        nvcc = Toolchain.find().nvcc
    except ToolchainError:
        return ""
    if nvcc is None:
        return ""
    done = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True)
    return next((line.strip() for line in done.stdout.splitlines() if "release" in line), "")

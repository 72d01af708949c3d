"""Whether this machine can judge on a device, found out without touching it: no context is made, no torch imported."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

from evaluation.building.toolchain import Toolchain, ToolchainError
from evaluation.errors import EvaluatorError


class DeviceAbsent(EvaluatorError):
    """This machine cannot judge where the settings say. One sentence: what is missing, and what to do."""


def absence(device: str) -> str | None:
    """Why candidates cannot be judged on `device` here, and what to do; None if nothing speaks against it."""
    if device != "cuda":
        return None
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return (
            "evaluation.device=cuda, but this machine has no NVIDIA driver (libcuda.so.1); run it on a machine with a "
            "GPU, or set evaluation=cpu"
        )
    try:
        nvcc = Toolchain.find().nvcc
    except ToolchainError as error:
        return str(error)
    if nvcc is None:
        return (
            "evaluation.device=cuda needs nvcc, which is not found here; install the CUDA toolkit, or name its folder "
            "in CUDA_HOME"
        )
    return None


def require(devices: Iterable[str]) -> None:
    """Raise DeviceAbsent for the first device that is not there."""
    for device in sorted(set(devices)):
        reason = absence(device)
        if reason is not None:
            raise DeviceAbsent(reason)

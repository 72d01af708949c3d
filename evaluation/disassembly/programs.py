"""Where cuobjdump and nvdisasm are. Distributions of CUDA that only compile lack them; pip has each in a wheel."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

NAMES = ("cuobjdump", "nvdisasm")
"""The first calls the second, which it looks for beside itself."""
_USUAL_FOLDER = Path("/usr/local/cuda/bin")


class DisassemblerMissing(Exception):
    """One of the programs is not here; the message is one sentence."""


def find() -> list[Path]:
    """The programs, in the order of NAMES. Raises DisassemblerMissing, which names what would bring them.

    Looked for in PATH, CUDA_HOME/bin, CUDA_PATH/bin, /usr/local/cuda/bin and the installed wheels of NVIDIA, in this
    order.
    """
    return [_find(name) for name in NAMES]


def _find(name: str) -> Path:
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    for folder in _folders():
        if (folder / name).is_file():
            return folder / name
    raise DisassemblerMissing(
        f"{name} is not installed on this machine (pip install {' '.join(f'nvidia-cuda-{one}' for one in NAMES)})"
    )


def _folders() -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable], "bin")
    yield _USUAL_FOLDER
    yield from sorted(Path(sysconfig.get_path("purelib")).glob("nvidia/*/bin"), reverse=True)

"""get_gpu_specs: what the kernels run on. Read from the system each time; nothing comes from a table of data sheets."""

from __future__ import annotations

import csv
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from agents.protocols import ToolResult

_SIMD = (
    "sse4_2 avx avx2 fma f16c avx512f avx512bw avx512dq avx512vl avx512_vnni avx512_bf16 avx512_fp16 avx_vnni "
    "amx_tile amx_bf16 amx_int8 asimd asimdhp asimddp sve sve2 bf16 i8mm"
).split()
_GPU_FIELDS = {
    "name": "name",
    "compute capability": "compute_cap",
    "total memory (MiB)": "memory.total",
    "maximum SM clock (MHz)": "clocks.max.sm",
    "maximum memory clock (MHz)": "clocks.max.memory",
    "driver": "driver_version",
}


class GetGpuSpecs:
    """Keeps the name that transcripts know; on a machine without a GPU it says that the device is the CPU."""

    name = "get_gpu_specs"
    description = "Describe the device that kernels run on in this session. Call it once, at the start."
    parameters: dict[str, Any] = {"type": "object", "properties": {}}  # noqa: RUF012 (the protocol's form)

    def __init__(self, device: str, cpu_threads: int) -> None:
        self._device = device
        self._cpu_threads = cpu_threads

    def call(self, arguments: dict[str, Any]) -> ToolResult:  # noqa: ARG002 (takes none)
        """See the class."""
        return cpu_result(self._cpu_threads) if self._device == "cpu" else gpu_result()


def cpu_result(
    threads: int, cpuinfo: Path = Path("/proc/cpuinfo"), system: Path = Path("/sys/devices/system")
) -> ToolResult:
    """What Linux says about this CPU."""
    first_core = _fields(cpuinfo.read_text().split("\n\n")[0])
    flags = set((first_core.get("flags") or first_core.get("Features") or "").split())
    memory = f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB"
    name = first_core.get("model name", "unknown CPU")
    facts = {
        "cores used by a kernel": f"{threads} of {len(os.sched_getaffinity(0))}",
        **_caches(system / "cpu/cpu0/cache"),
        "SIMD": " ".join(flag for flag in _SIMD if flag in flags) or "unknown",
    }
    head = [
        f"GPU specs for {name}:",
        "  There is no GPU: the device of this session is this CPU, and kernels are C++.",
        f"  total memory (runtime): {memory}",
    ]
    lines = head + [f"    {label}: {value}" for label, value in facts.items()]
    return ToolResult(text="\n".join(lines), ok=True, data={"name": name, "total memory": memory, **facts})


def _fields(block: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in block.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _caches(folder: Path) -> dict[str, str]:
    found = {}
    for index in sorted(folder.glob("index*")):
        level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        found[f"L{level} cache ({kind.lower()})"] = re.sub(r"K$", " KiB", size)
    return found


def gpu_result() -> ToolResult:
    """What the driver says about the first GPU."""
    query = ["nvidia-smi", "--id=0", f"--query-gpu={','.join(_GPU_FIELDS.values())}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        return ToolResult(text=f"get_gpu_specs FAILED: nvidia-smi gave no answer ({type(error).__name__}).", ok=False)
    values = next(csv.reader(answer.splitlines(), skipinitialspace=True))
    name, *rest = zip(_GPU_FIELDS, values, strict=True)
    lines = [f"GPU specs for {name[1]}:"] + [f"    {label}: {value}" for label, value in rest]
    return ToolResult(text="\n".join(lines), ok=True, data=dict(zip(_GPU_FIELDS, values, strict=True)))

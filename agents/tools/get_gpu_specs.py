"""get_gpu_specs: what the kernels run on, read from the system; beside it the vendor's peaks where these are known."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from agents.protocols import ToolResult
from evaluation.device.facts import DeviceFacts, FactsAbsent, device_facts
from evaluation.profile.specs import Specs, specs_of

_SIMD = (
    "sse4_2 avx avx2 fma f16c avx512f avx512bw avx512dq avx512vl avx512_vnni avx512_bf16 avx512_fp16 avx_vnni "
    "amx_tile amx_bf16 amx_int8 asimd asimdhp asimddp sve sve2 bf16 i8mm"
).split()


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
    """What the driver says about the first GPU, and what its vendor prints about such ones."""
    try:
        facts = device_facts()
    except FactsAbsent as error:
        return ToolResult(text=f"get_gpu_specs FAILED: {error}.", ok=False)
    return facts_result(facts)


def facts_result(facts: DeviceFacts) -> ToolResult:
    """The vendor's figures come first, in the order of the contract; then the driver's."""
    specs = specs_of(facts.name)
    memory = f"{facts.total_memory_bytes / 1e9:.1f} GB"
    vendor, driver = {} if specs is None else _vendor(specs), _driver(facts)
    lines = [
        f"GPU specs for {facts.name}:",
        f"  total memory (runtime): {memory}",
        "  no detailed spec entry for this GPU" if specs is None else f"  spec entry: {specs.name}",
        *(f"    {label}: {value}" for label, value in vendor.items()),
        "  from the driver:",
        *(f"    {label}: {value}" for label, value in driver.items()),
    ]
    data = {"name": facts.name, "total memory": memory, **vendor, **driver}
    return ToolResult(text="\n".join(lines), ok=True, data=data)


def _vendor(specs: Specs) -> dict[str, str]:
    found = {"DRAM bandwidth": f"{specs.dram_bandwidth_bytes_s / 1e9:.0f} GB/s"}
    for kind, peak in specs.peak_flops.items():
        unit = "TOPS" if kind.startswith("int") else "TFLOPS"
        cores = "ordinary cores" if kind in ("fp64", "fp32") else "tensor cores, dense"
        found[f"peak {kind.upper()}"] = f"{peak / 1e12:.5g} {unit} ({cores})"
    return {**found, "source": specs.source}


def _driver(facts: DeviceFacts) -> dict[str, str]:
    major, minor = facts.compute_capability
    derived = facts.derived_bandwidth_bytes_s
    found = {
        "compute capability": f"{major}.{minor}",
        "SMs": f"{facts.sm_count}",
        "maximum SM clock": f"{facts.sm_clock_khz / 1e3:.0f} MHz",
        "L2 cache": _kib(facts.l2_bytes),
        "shared memory per SM": _kib(facts.shared_bytes_per_sm),
        "shared memory per block": f"{_kib(facts.shared_bytes_per_block)}, "
        f"{_kib(facts.shared_bytes_per_block_optin)} on request",
        "registers per SM": f"{facts.registers_per_sm} of 32 bits",
        "threads per SM": f"{facts.max_threads_per_sm}",
        "threads per block": f"{facts.max_threads_per_block}",
        "blocks per SM": f"{facts.max_blocks_per_sm}",
        "threads per warp": f"{facts.warp_threads}",
    }
    if derived is not None:
        found["DRAM bandwidth (derived)"] = (
            f"{derived / 1e9:.0f} GB/s, 2 x {facts.memory_clock_khz / 1e3:.0f} MHz x {facts.memory_bus_bits} bits"
        )
    return {**found, "CUDA of the driver": facts.cuda_driver}


def _kib(size_bytes: int) -> str:
    return f"{size_bytes / 1024:.0f} KiB"

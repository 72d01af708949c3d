"""disassemble_kernel: what the compiler made of a kernel, without running it."""

from __future__ import annotations

from typing import Any

from agents.protocols import ToolResult
from agents.tools.kernels import KERNEL_PARAMETERS, Kernels
from agents.tools.result_text import built, needs_gpu_text
from evaluation.disassembly.kernel_code import Disassembly, KernelCode

KERNELS_SHOWN = 6
CLASSES_SHOWN = 8
_CLASSES = {
    "fp32": "fp32 arithmetic",
    "half": "half and bfloat16 arithmetic",
    "fp64": "fp64 arithmetic",
    "special": "special functions",
    "alu": "integers, logic, comparisons",
    "move": "moves",
    "shuffle": "shuffles and votes",
    "conversion": "conversions",
    "tensor": "tensor cores",
    "load_global": "global loads",
    "store_global": "global stores",
    "load_shared": "shared loads",
    "store_shared": "shared stores",
    "load_local": "local loads",
    "store_local": "local stores",
    "load_generic": "generic loads",
    "store_generic": "generic stores",
    "load_constant": "constant loads",
    "tensor_memory": "tensor memory",
    "async_copy": "asynchronous copies",
    "atomic": "atomics and reductions",
    "texture": "textures and surfaces",
    "barrier": "barriers and fences",
    "control": "control",
    "other": "other",
}
"""Classes of `evaluation/disassembly/instructions.py` in words."""


class DisassembleKernel:
    """Registers, spills and instructions of native builds."""

    name = "disassemble_kernel"
    description = (
        "Build a kernel and read its machine code (SASS): registers, stack and spills, static shared memory, the mix "
        "of instructions, widths of global loads, and whether tensor cores are used, for each kernel. Nothing is run. "
        "For code built by load_inline or load; not for Triton."
    )
    parameters = KERNEL_PARAMETERS

    def __init__(self, kernels: Kernels, device: str) -> None:
        self._kernels = kernels
        self._device = device

    def call(self, arguments: dict[str, Any]) -> ToolResult:
        """See the class."""
        if self._device != "cuda":
            return ToolResult(text=needs_gpu_text(self.name), ok=False)
        return self._kernels.disassemble(arguments, disassembly_text)


def disassembly_text(found: Disassembly) -> str:
    """Result of disassemble_kernel: the largest kernels first."""
    name = DisassembleKernel.name
    if not built(found.evaluation):
        return f"{name} FAILED: kernel did not compile.\n{found.evaluation.message}"
    if found.absent:
        return f"{name} FAILED: {found.absent}."
    archs = ", ".join(sorted({kernel.arch for kernel in found.kernels}))
    lines = [
        f"{name} PASSED: disassembly analysis complete.",
        f"Functions on the device: {found.kernels_total}, for {archs}. Counts are of instructions in the code, not of "
        "executions.",
    ]
    for kernel in found.kernels[:KERNELS_SHOWN]:
        lines += _kernel(kernel)
    if found.kernels_total > KERNELS_SHOWN:
        lines.append(f"--- {found.kernels_total - KERNELS_SHOWN} smaller functions are not shown ---")
    return "\n".join(lines)


def _kernel(kernel: KernelCode) -> list[str]:
    registers, stack = _stated(kernel.registers, "per thread"), _stated(kernel.stack_bytes, "bytes per thread")
    lines = [
        f"--- {kernel.name} (build {kernel.build}, {kernel.arch}) ---",
        f"  registers: {registers}",
        f"  static shared memory: {_stated(kernel.shared_bytes, 'bytes per block')}",
        f"  stack: {stack}",
        f"  spills: {_spills(kernel)}",
        f"  tensor cores: {_tensor(kernel)}",
        f"  instructions: {kernel.instructions}",
    ]
    rows = list(kernel.mix.items())
    lines += [f"    {_CLASSES[kind]}: {count} ({_percent(count, kernel)})" for kind, count in rows[:CLASSES_SHOWN]]
    if len(rows) > CLASSES_SHOWN:
        count = sum(count for _, count in rows[CLASSES_SHOWN:])
        lines.append(f"    {len(rows) - CLASSES_SHOWN} further classes: {count} ({_percent(count, kernel)})")
    if kernel.global_load_bits:
        widths = ", ".join(f"{count} of {bits} bits" for bits, count in kernel.global_load_bits.items())
        lines.append(f"  global loads by width per thread: {widths}")
    return lines


def _stated(figure: int | None, unit: str) -> str:
    return "not stated by the compiler" if figure is None else f"{figure} {unit}"


def _spills(kernel: KernelCode) -> str:
    if not kernel.uses_local_memory:
        return "none"
    return (
        f"local memory is used, {kernel.local_stores} stores and {kernel.local_loads} loads: registers were spilled, "
        "or an array is indexed by what is known only at run time"
    )


def _tensor(kernel: KernelCode) -> str:
    if not kernel.tensor:
        return "not used"
    return f"used ({', '.join(f'{count} {mnemonic}' for mnemonic, count in kernel.tensor.items())})"


def _percent(count: int, kernel: KernelCode) -> str:
    return f"{100 * count / kernel.instructions:.1f} %"

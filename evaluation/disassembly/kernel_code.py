"""The nouns of a disassembly. Plain data: importing this loads neither torch nor numpy."""

from __future__ import annotations

from dataclasses import dataclass, field

from evaluation.verdict import Evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCode:
    """One function of the device as the compiler left it. Counts are of instructions in the code, not of executions."""

    name: str
    """As C++ writes it, without arguments, where c++filt can tell; bounded."""
    build: str
    """Name of the native build that holds it."""
    arch: str
    registers: int | None
    """Per thread. This and the next two are None where cuobjdump does not state them."""
    stack_bytes: int | None
    """Per thread, in local memory: spilled registers, and arrays that are indexed at run time."""
    shared_bytes: int | None
    """Static shared memory per block, with what the driver reserves (1024 bytes from sm_90 on, where any is used)."""
    instructions: int
    """Without the padding at the end."""
    mix: dict[str, int] = field(default_factory=dict)
    """By class (`evaluation/disassembly/instructions.py`), most first."""
    tensor: dict[str, int] = field(default_factory=dict)
    """Operations of tensor cores by their mnemonic; empty where none is used."""
    global_load_bits: dict[str, int] = field(default_factory=dict)
    """Loads of global memory by bits that each thread gets, most bits first."""

    @property
    def local_stores(self) -> int:
        """Stores to local memory (STL): of a spill, or of an array that is indexed at run time."""
        return self.mix.get("store_local", 0)

    @property
    def local_loads(self) -> int:
        """Loads from local memory (LDL)."""
        return self.mix.get("load_local", 0)

    @property
    def uses_local_memory(self) -> bool:
        """Whether registers were spilled, or an array could not be kept in them."""
        return bool(self.stack_bytes or self.local_stores or self.local_loads)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disassembly:
    """The device code of one candidate. Raises ValueError unless there are either kernels or a reason for none."""

    evaluation: Evaluation
    """Of the build that the code comes from, at Stage.BUILD."""
    kernels: list[KernelCode] = field(default_factory=list)
    """Largest first, bounded."""
    kernels_total: int = 0
    absent: str = ""
    """Why there are no kernels: one sentence."""

    def __post_init__(self) -> None:
        if bool(self.kernels) == bool(self.absent):
            raise ValueError("a disassembly has kernels, or the reason for having none")

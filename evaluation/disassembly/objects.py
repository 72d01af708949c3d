"""Takes the native builds of a candidate apart, by NVIDIA's programs in a compiler's sandbox.

The programs read files that a candidate's sources decide, so that they run as compilers do
(`evaluation/building/limits.py`): in a private folder, without network, with bounded time, memory and output.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from evaluation.building.limits import Compartment
from evaluation.disassembly import programs
from evaluation.disassembly.kernel_code import Disassembly, KernelCode
from evaluation.disassembly.listing import Code, Usage, codes, usages
from evaluation.errors import EvaluatorError
from evaluation.settings import LimitSettings
from evaluation.verdict import Build, Evaluation

KERNELS_MAX = 64
NAME_CHARS = 200
LIMIT_S = 60.0
"""For each native build."""
OUTPUT_BYTES_MAX = 64 * 2**20
"""Some 300,000 instructions."""
_NO_DEVICE_CODE = "does not contain device code"
_MANGLED_CHARS_MAX = 4096


class NotRead(Exception):
    """An object cannot be taken apart; the message is one sentence."""


def disassembled(evaluation: Evaluation, object_of: Callable[[str], Path | None], limits: LimitSettings) -> Disassembly:
    """The device code of the builds of `evaluation`, whose stage is Stage.BUILD; `object_of` finds a build by its key.

    Raises EvaluatorError for faults of ours; a missing program is no fault but the reason why there is no code.
    """
    if not evaluation.status.correct:
        return Disassembly(evaluation=evaluation, absent=f"the kernel did not build: {evaluation.status}")
    if not evaluation.builds:
        return Disassembly(
            evaluation=evaluation,
            absent="the module has no native build: only code of load_inline and load can be disassembled, not what "
            "Triton or torch compile themselves",
        )
    try:
        found = [kernel for build in evaluation.builds for kernel in _of_build(build, object_of(build.key), limits)]
    except (programs.DisassemblerMissing, NotRead) as error:
        return Disassembly(evaluation=evaluation, absent=str(error))
    if not found:
        return Disassembly(evaluation=evaluation, absent="the native builds hold no code for a GPU")
    found.sort(key=lambda kernel: (-kernel.instructions, kernel.name))
    return Disassembly(evaluation=evaluation, kernels=found[:KERNELS_MAX], kernels_total=len(found))


def _of_build(build: Build, library: Path | None, limits: LimitSettings) -> list[KernelCode]:
    if library is None:
        raise NotRead(f"build {build.name} is not in the cache any more; call again")
    return kernels_in(library, limits, build.name)


def kernels_in(library: Path, limits: LimitSettings, build: str = "") -> list[KernelCode]:
    """The device functions of one shared object or object file; none if it has no device code.

    Raises DisassemblerMissing, NotRead, and EvaluatorError where this machine ends the program.
    """
    with _bench(library, limits) as bench:
        listed = list(codes(bench.dump("-sass")))
        if not listed:
            return []
        used = usages(bench.dump("-res-usage"))
        names = bench.demangled([code.name for code in listed])
    nothing = Usage(None, None, None)
    pairs = zip(listed, names, strict=True)
    return [_kernel(code, used.get((code.arch, code.name), nothing), name, build) for code, name in pairs]


def _kernel(code: Code, usage: Usage, name: str, build: str) -> KernelCode:
    return KernelCode(
        name=_readable(name),
        build=build,
        arch=code.arch,
        registers=usage.registers,
        stack_bytes=usage.stack_bytes,
        shared_bytes=usage.shared_bytes,
        instructions=code.mix.total,
        mix=code.mix.classes,
        tensor=code.mix.tensor,
        global_load_bits=code.mix.global_load_bits,
    )


class _Bench:
    """The programs and one object in a private folder."""

    def __init__(self, folder: Path, compartment: Compartment) -> None:
        self._folder, self._compartment = folder, compartment

    def dump(self, what: str) -> str:
        """What cuobjdump says of the object; nothing where it holds no device code. Raises as `kernels_in` does."""
        done = self._compartment.run([str(self._folder / programs.NAMES[0]), what, "object.so"])
        if done.killed_by_machine:
            raise EvaluatorError("this machine killed cuobjdump, most likely for want of memory")
        if done.timed_out:
            raise NotRead(f"cuobjdump needs more than {LIMIT_S:.0f} s for this code")
        if len(done.output) >= OUTPUT_BYTES_MAX:
            raise NotRead(f"the code is longer than {OUTPUT_BYTES_MAX // 2**20} MiB when written out")
        if done.returncode and _NO_DEVICE_CODE in done.output:
            return ""
        if done.returncode:
            said = next(iter(done.output.strip().splitlines()), "").replace(f"{self._folder}/", "")
            raise NotRead(f"cuobjdump ended with code {done.returncode}: {said[:NAME_CHARS]}")
        return done.output

    def demangled(self, names: Sequence[str]) -> list[str]:
        """As C++ writes them; as they are where c++filt is missing or does not know better."""
        short = [name[:_MANGLED_CHARS_MAX] for name in names]
        if shutil.which("c++filt") is None:
            return short
        plain: list[str] = []
        for start in range(0, len(short), KERNELS_MAX):
            part = short[start : start + KERNELS_MAX]
            done = self._compartment.run(["c++filt", "--", *part])
            lines = done.output.splitlines()
            plain += lines if done.ok and len(lines) == len(part) else part
        return plain


@contextmanager
def _bench(library: Path, limits: LimitSettings) -> Iterator[_Bench]:
    # The programs are copied too: a wheel may have been unpacked without their right to be run, and a container shows
    # no other folder.
    found = programs.find()
    with tempfile.TemporaryDirectory(prefix="disassembly-") as name:
        folder = Path(name)
        for program, called in zip(found, programs.NAMES, strict=True):
            shutil.copyfile(program, folder / called)
            (folder / called).chmod(0o755)
        shutil.copyfile(library, folder / "object.so")
        compartment = Compartment(
            folder=folder,
            readable=[],
            memory_bytes=limits.memory_bytes,
            deadline=time.monotonic() + LIMIT_S,
            output_bytes=OUTPUT_BYTES_MAX,
        )
        yield _Bench(folder, compartment)


def _readable(name: str) -> str:
    """Without the arguments and the result, which add length and tell nothing apart; bounded."""
    name = name.replace("(anonymous namespace)::", "")
    depth, end = 0, len(name)
    for at, character in enumerate(name):
        if character == "(" and depth == 0:
            end = at
            break
        depth += (character == "<") - (character == ">" and depth > 0)
    kept = re.sub(r"^void ", "", name[:end]).strip() or name
    return kept if len(kept) <= NAME_CHARS else f"{kept[: NAME_CHARS - 3]}..."

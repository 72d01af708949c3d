"""Runs one compiler process inside bounds, contained where the machine allows.

Stops, where bubblewrap can run: reading any file but the toolchain's, torch's, Python's headers and the request's own
(absolute `#include`, `.incbin`, `#embed`, a linker script), writing outside a private folder, the network, signals to
other processes, processes that outlive the compile. Without bubblewrap files and the network are NOT stopped; the
flags, the time, the memory, the size of every output and the environment are bounded either way.
Does not stop: a compiler that is itself exploited by its input from reading the toolchain.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

FILE_BYTES_MAX = 512 * 2**20
"""Largest file that a compile may write."""
OUTPUT_BYTES_MAX = 256 * 1024
"""Bytes of a compiler's messages that are kept."""
_POLL_S = 0.02
_KILLED = re.compile(
    r"^\S+: fatal error: Killed signal terminated program|^nvcc error +: '\S+' died due to signal 9\b", re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How a compiler process ended."""

    returncode: int
    output: str
    wall_s: float
    timed_out: bool = False
    stopped: bool = False
    """Whether whoever asked for it gave it up."""
    short_of_memory: bool = False
    """Whether the kernel's out-of-memory killer struck somewhere on this machine meanwhile."""

    @property
    def killed(self) -> bool:
        """Whether this process or one that it started says to have died of SIGKILL, which no limit of ours sends."""
        return self._ended and (self._died or _KILLED.search(self.output) is not None)

    @property
    def killed_by_machine(self) -> bool:
        """Whether that is so for sure. A program can make its compiler print anything, so that words need a witness."""
        return (self._died and self._ended) or (self.killed and self.short_of_memory)

    @property
    def _ended(self) -> bool:
        return not (self.timed_out or self.stopped)

    @property
    def _died(self) -> bool:
        return self.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)

    @property
    def ok(self) -> bool:
        """Whether it did what it was asked."""
        return self.returncode == 0 and self._ended


@dataclass(slots=True, kw_only=True)
class Compartment:
    """A private folder, and the bounds of what runs in it."""

    folder: Path
    readable: Sequence[Path]
    memory_bytes: int
    deadline: float
    """On time.monotonic()'s clock; all processes of one build share it."""
    output_bytes: int = OUTPUT_BYTES_MAX
    """Of what each process prints, the first that are kept."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set by another thread to end what runs."""

    def run(self, command: Sequence[str]) -> Completed:
        """Run `command` in the folder until it ends, the deadline passes or `stop` is set; then its whole group ends.

        Raises FileNotFoundError when there is no such program.
        """
        program = shutil.which(command[0])
        if program is None:
            raise FileNotFoundError(f"{command[0]} is not installed")
        bounded = _bounded([program, *command[1:]], self.memory_bytes)
        start, kills = time.monotonic(), _out_of_memory_kills()
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                self._contained(bounded),
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
            with _killed_afterwards(process):
                ended = self._wait(process)
            output.seek(0)
            text = output.read(self.output_bytes).decode(errors="replace")
        return Completed(
            returncode=process.returncode if process.returncode is not None else -signal.SIGKILL,
            output=text,
            wall_s=time.monotonic() - start,
            timed_out=not ended and not self.stop.is_set(),
            stopped=not ended and self.stop.is_set(),
            short_of_memory=_out_of_memory_kills() > kills,
        )

    def _wait(self, process: subprocess.Popen[bytes]) -> bool:
        while time.monotonic() < self.deadline and not self.stop.is_set():
            try:
                process.wait(timeout=_POLL_S)
            except subprocess.TimeoutExpired:
                continue
            return True
        return False

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "TMPDIR": "/tmp" if can_contain() else str(self.folder),
            "LC_ALL": "C",
        }

    def _contained(self, command: Sequence[str]) -> list[str]:
        if not can_contain():
            return list(command)
        bound = [word for path in self.readable for word in ("--ro-bind", str(path), str(path))]
        return [
            *_container(),
            *bound,
            "--bind",
            str(self.folder),
            str(self.folder),
            "--chdir",
            str(self.folder),
            *command,
        ]


def _out_of_memory_kills() -> int:
    """How often the kernel has killed for want of memory since it started, in whichever control group."""
    try:
        text = Path("/proc/vmstat").read_text()
    except FileNotFoundError:  # a kernel that does not tell
        return 0
    found = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else 0


@contextmanager
def _killed_afterwards(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        # The group outlives its leader when a child of it does.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def _bounded(command: Sequence[str], memory_bytes: int) -> list[str]:
    # ulimit counts blocks of 1024 bytes for memory and of 512 for files.
    limits = f"ulimit -c 0 && ulimit -v {memory_bytes // 1024} && ulimit -f {FILE_BYTES_MAX // 512}"
    return ["/bin/sh", "-c", f'{limits} && exec "$@"', "sh", *command]


def _container() -> list[str]:
    merged = [(name, Path("/") / name) for name in ("bin", "lib", "lib32", "lib64", "libx32", "sbin")]
    system: list[str] = ["--ro-bind", "/usr", "/usr"]
    for name, path in merged:
        if path.is_symlink():
            system += ["--symlink", str(path.readlink()), "/" + name]
        elif path.exists():
            system += ["--ro-bind", str(path), str(path)]
    etc = [word for path in ("/etc/alternatives", "/etc/ld.so.cache") for word in ("--ro-bind-try", path, path)]
    return [
        "bwrap",
        "--unshare-all",
        "--die-with-parent",
        *system,
        *etc,
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
    ]


@functools.cache
def can_contain() -> bool:
    """Whether bubblewrap is here and may make namespaces."""
    if shutil.which("bwrap") is None:
        return False
    probe = subprocess.run([*_container(), *_bounded(["true"], 2**30)], capture_output=True, check=False)
    return probe.returncode == 0

"""The compilers, the installed torch and this Python, as one build sees them."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_STAND_IN = "python"
LITE_FOLDER = Path(__file__).resolve().parent / "lite"
SLIM_FOLDER = Path(__file__).resolve().parent / "slim"


class ToolchainError(Exception):
    """A compiler or a part of torch is missing: our machine's fault, not the candidate's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """Where everything is. `fingerprint` changes when an object built by another would not be the same."""

    cxx: str
    nvcc: str | None
    cuda_folder: Path | None
    torch_folder: Path
    python_include: Path
    standard: str
    """The `-std=` that the installed torch passes to extensions."""
    fingerprint: str

    @classmethod
    @functools.cache
    def find(cls) -> Toolchain:
        """Look at this machine. Raises ToolchainError when torch or a C++ compiler is missing."""
        torch_folder = _torch_folder()
        cxx = os.environ.get("CXX", "c++")
        cxx = shutil.which(cxx) or shutil.which("g++") or ""
        if not cxx:
            raise ToolchainError("no C++ compiler found; install g++ or put its name into CXX")
        cuda_folder = _cuda_folder()
        nvcc = str(cuda_folder / "bin" / "nvcc") if cuda_folder else None
        recipe = (torch_folder / "utils" / "cpp_extension.py").read_text()
        standard = re.search(r"'(-std=c\+\+\d\d)'", recipe)
        if standard is None:
            raise ToolchainError(f"torch in {torch_folder} names no C++ standard for extensions")
        facts = [
            _version(cxx),
            _version(nvcc) if nvcc else "",
            importlib.metadata.version("torch"),
            sysconfig.get_config_var("SOABI") or sys.version,
            platform.machine(),
            _headers_version(LITE_FOLDER),
            _headers_version(SLIM_FOLDER),
        ]
        return cls(
            cxx=cxx,
            nvcc=nvcc,
            cuda_folder=cuda_folder,
            torch_folder=torch_folder,
            python_include=Path(sysconfig.get_path("include", scheme="posix_prefix")),
            standard=standard.group(1),
            fingerprint=hashlib.sha256("\0".join(facts).encode()).hexdigest(),
        )

    @property
    def torch_has_cuda(self) -> bool:
        """Whether the installed torch has the libraries that CUDA extensions are linked with."""
        return (self.torch_folder / "lib" / "libtorch_cuda.so").exists()

    def readable(self, scratch: Path) -> list[Path]:
        """Folders that a contained compile reads beside the system's own. `scratch` as for the link flags."""
        library = Path(sysconfig.get_config_var("LIBDIR") or "/usr/lib")
        compiler = Path(self.cxx).parent.parent
        ours = [LITE_FOLDER, SLIM_FOLDER, scratch / _STAND_IN, *self.site_folders()]
        folders = [self.python_include.resolve(), library, compiler, *ours]
        return [folder for folder in folders if folder.is_dir() and not folder.is_relative_to("/usr")]

    def site_folders(self) -> list[Path]:
        """Folders with headers and libraries that candidates may name by path."""
        system = [Path("/usr/include"), Path("/usr/lib"), self.torch_folder]
        nvidia = self.torch_folder.parent / "nvidia"
        found = [*system, self.cuda_folder, nvidia if nvidia.is_dir() else None]
        return [folder.resolve() for folder in found if folder is not None]

    def include_flags(self, *, cuda: bool) -> list[str]:
        """As torch passes them: its own headers, CUDA's, Python's, all as system headers."""
        include = self.torch_folder / "include"
        folders = [include, include / "torch" / "csrc" / "api" / "include"]
        if cuda and self.cuda_folder:
            folders.append(self.cuda_folder / "include")
        return [word for folder in [*folders, self.python_include] for word in ("-isystem", str(folder))]

    def library_flags(self, *, cuda: bool) -> list[str]:
        """As torch passes them to the link, and the C++ runtime that torch itself uses.

        With another one, even a static copy of the same, an exception that leaves the module ends the process.
        """
        names = ["c10", *(["c10_cuda"] if cuda else []), "torch_cpu", *(["torch_cuda"] if cuda else [])]
        flags = [f"-L{self.torch_folder / 'lib'}", *(f"-l{name}" for name in [*names, "torch", "torch_python"])]
        if cuda and self.cuda_folder:
            lib = self.cuda_folder / ("lib64" if (self.cuda_folder / "lib64").is_dir() else "lib")
            flags += [f"-L{lib}", "-lcudart"]
        return [*flags, *_shared_cxx_runtime(self.cxx)]

    def complete_link_flags(self, scratch: Path) -> list[str]:
        """Flags that make a link fail when a symbol is found nowhere, though Python's come from the interpreter.

        A Python without a shared library gets a stand-in with its exported names, whose recorded name is a library
        that every process has.
        """
        flags = ["-Wl,-z,defs"]
        if sysconfig.get_config_var("Py_ENABLE_SHARED"):
            return [*flags, str(Path(sysconfig.get_config_var("LIBDIR")) / sysconfig.get_config_var("INSTSONAME"))]
        return [*flags, str(_python_stand_in(self.cxx, scratch))]


def cpu_features() -> str:
    """What `native` means on this machine."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else platform.processor()
    lines = {line for line in text.splitlines() if line.startswith(("model name", "flags", "Features", "CPU part"))}
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _torch_folder() -> Path:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise ToolchainError("torch is not installed in this Python")
    return Path(spec.origin).resolve().parent


def _cuda_folder() -> Path | None:
    named = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    found = shutil.which("nvcc")
    candidates = [Path(named) if named else None, Path(found).resolve().parent.parent if found else None]
    for folder in [*candidates, Path("/usr/local/cuda")]:
        # A wrapper of nvcc may lie where the rest of CUDA does not.
        if folder is not None and (folder / "bin" / "nvcc").exists() and (folder / "include" / "cuda.h").exists():
            return folder.resolve()
    return None


@functools.cache
def _shared_cxx_runtime(cxx: str) -> list[str]:
    """The C++ runtime that torch uses, by path: a compiler that was moved finds only its static one by name."""
    command = [cxx, "-print-file-name=libstdc++.so.6"]
    path = Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
    return [str(path.resolve())] if path.is_absolute() else []


def _version(compiler: str) -> str:
    try:
        return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise ToolchainError(f"{compiler} does not run: {error}") from error


def _headers_version(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _python_stand_in(cxx: str, scratch: Path) -> Path:
    folder = scratch / _STAND_IN
    target = folder / "libpython_names.so"
    if target.exists():
        return target
    folder.mkdir(exist_ok=True)
    listed = _exported_names(Path(sys.executable).resolve())
    source = folder / f"python_names.{os.getpid()}.{threading.get_ident()}.s"
    source.write_text(".text\n" + "".join(f".globl {name}\n{name}:\n" for name in listed))
    made = source.with_suffix(".so")
    command: Sequence[str] = [cxx, "-shared", "-nostdlib", "-Wl,-soname,libdl.so.2", "-o", str(made), str(source)]
    subprocess.run(command, capture_output=True, check=True)
    made.replace(target)
    source.unlink()
    return target


def _exported_names(program: Path) -> list[str]:
    if shutil.which("nm") is None:
        raise ToolchainError("nm is missing; install binutils")
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", str(program)], capture_output=True, text=True, check=True
    ).stdout
    names = (line.split()[-1] for line in listing.splitlines() if line)
    return [name for name in names if name.startswith(("Py", "_Py"))]

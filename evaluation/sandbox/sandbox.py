"""What a candidate's process can reach.

Level 2, `read-only root`: level 1, and a root of its own: /usr, /etc and Python, read-only; /tmp and /dev/shm of
its own; no home folder, no checkout, no cache, no other candidate's files.
Level 1, `namespaces`: level 0, and pid, network and IPC namespaces of its own; /proc shows only its own tree.
Level 0, `process`: session and folder of its own, environment from an allow-list, no capability, no way to regain one,
a system call filter (evaluation/sandbox/seccomp.py), limits on open files, file size and core dumps.

Stops: reading keys from the environment (every level); network, signals to or memory of other processes (1, 2);
reading or writing any file but its own and the system's (2); leaving its cores (every level); surviving its judge.
Does not stop: at level 0, reading files of the same user, the network, killing its supervisor; at any level, a bug of
the kernel, side channels, and memory or processes beyond the limit for the tens of milliseconds until the judge's
next look (evaluation/worker/monitor.py).
"""

from __future__ import annotations

import os
import resource
import signal
import site
import stat
import sys
from collections.abc import Callable, Iterable
from enum import IntEnum
from pathlib import Path
from typing import NoReturn

from evaluation.errors import EvaluatorError
from evaluation.sandbox import seccomp, syscalls

_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES")
_SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/sys")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_OPEN_FILES = 1024
_FILE_BYTES = 2**30
_NAMESPACES = syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNET | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWNS


class Level(IntEnum):
    """How much stands between a candidate and the machine."""

    PROCESS = 0
    NAMESPACES = 1
    READ_ONLY_ROOT = 2

    def describe(self) -> str:
        """One phrase for the record."""
        words = {0: "process", 1: "namespaces", 2: "namespaces, read-only root"}[self.value]
        return f"{words}, system call filter" if seccomp.supported() else words


def clean_environment(threads: int, home: str = "/nonexistent") -> dict[str, str]:
    """An environment for a process that a candidate may come to live in; nothing secret can be in it."""
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    count = str(threads)
    fixed = {
        "HOME": home,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        # OpenBLAS starts its threads at import, and a process with threads must not be forked.
        "OPENBLAS_NUM_THREADS": "1",
    }
    return kept | fixed


def best_level() -> Level:
    """The highest level that this machine permits, found by trying in a child."""
    for level in sorted(Level, reverse=True):
        if level is Level.PROCESS or _permits(level):
            return level
    raise AssertionError("level 0 needs no permission")


def check_level(level: Level, required: int) -> None:
    """Raise EvaluatorError if `level` is lower than the settings ask for."""
    if level < required:
        raise EvaluatorError(
            f"evaluation.require_sandbox={required} but this machine permits level {int(level)} ({level.describe()}); "
            "allow unprivileged user namespaces, or set evaluation.require_sandbox lower"
        )


def enter_namespaces(level: Level) -> None:
    """Prepare so that the next child is the first process of its own namespaces. Raises OSError if not permitted."""
    if level is Level.PROCESS:
        return
    try:
        syscalls.unshare(_NAMESPACES)
    except PermissionError:
        user, group = os.geteuid(), os.getegid()
        # The maps of a process that is not dumpable belong to root, so it could not write them.
        syscalls.set_dumpable(True)
        syscalls.unshare(_NAMESPACES | syscalls.CLONE_NEWUSER)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    syscalls.set_dumpable(False)


def enter_root(level: Level, folder: Path) -> Path:
    """In the namespaces' first process: make its view of the file system. Returns the writable home folder.

    `folder` is an empty folder on this machine; at level 2 the new root is built in it and it is not seen any more.
    """
    if level is Level.PROCESS:
        return folder
    syscalls.mount("none", Path("/"), None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    if level is Level.NAMESPACES:
        _mount_proc(Path("/proc"))
        return folder
    _mount_tmpfs(folder, "64m")
    # First, because Python itself may be installed somewhere below /tmp and is then shown on top.
    for name in ("tmp", "dev/shm"):
        (folder / name).mkdir(parents=True)
        _mount_tmpfs(folder / name, "1g")
    (folder / "proc").mkdir()
    for source in _visible_paths():
        _show(source, folder)
    syscalls.make_read_only(folder, recursive=False)
    _mount_proc(folder / "proc")
    syscalls.pivot_root(folder)
    return Path("/tmp")


def confine() -> None:
    """In the candidate's process, last: limits, no capability, no dangerous system call."""
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, _FILE_BYTES),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
    ):
        ceiling = resource.getrlimit(limit)[1]
        value = value if ceiling == resource.RLIM_INFINITY else min(value, ceiling)
        resource.setrlimit(limit, (value, value))
    # The judge, of the same user and without privileges, reads this process's memory use; there is nothing to hide.
    syscalls.set_dumpable(True)
    syscalls.drop_privileges()
    if seccomp.supported():
        seccomp.refuse_dangerous_calls()


def _permits(level: Level) -> bool:
    """Try `level` in a forked child, in a throw-away folder."""
    middle = os.fork()
    if middle == 0:
        _exit_with(lambda: _try_level(level))
    return os.waitpid(middle, 0)[1] == 0


def _try_level(level: Level) -> bool:
    enter_namespaces(level)
    first = os.fork()
    if first == 0:
        # Any existing folder will do: what is mounted on it is seen in this namespace only.
        _exit_with(lambda: enter_root(level, Path("/tmp")).is_dir())
    return os.waitpid(first, 0)[1] == 0


def _exit_with(attempt: Callable[[], bool]) -> NoReturn:
    """End this forked child: 0 if the attempt succeeds, 1 if the machine refuses it."""
    try:
        os._exit(0 if attempt() else 1)
    except OSError:
        os._exit(1)
    finally:
        os.kill(os.getpid(), signal.SIGKILL)


def _visible_paths() -> Iterable[Path]:
    """What level 2 shows: system folders, this Python and the folders of its installed packages, some devices."""
    python = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, *site.getsitepackages()]
    wanted = {Path(path) for path in (*_SYSTEM_FOLDERS, *python, *_DEVICES)}
    wanted |= {path for pattern in ("nvidia*", "nvidia-caps") for path in Path("/dev").glob(pattern)}
    shown: list[Path] = []
    for path in sorted(wanted):
        if os.path.lexists(path) and not any(path.is_relative_to(parent) for parent in shown):
            shown.append(path)
    return shown


def _show(source: Path, root: Path) -> None:
    target = root / source.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_symlink():
        target.symlink_to(source.readlink())
        return
    if stat.S_ISDIR(source.stat().st_mode):
        target.mkdir(exist_ok=True)
    else:
        target.touch()
    syscalls.mount(str(source), target, None, syscalls.MS_BIND | syscalls.MS_REC)
    syscalls.make_read_only(target, recursive=True)


def _mount_proc(target: Path) -> None:
    syscalls.mount("proc", target, "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV)


def _mount_tmpfs(target: Path, size: str) -> None:
    syscalls.mount("tmpfs", target, "tmpfs", syscalls.MS_NOSUID, f"size={size},mode=755")

"""The few Linux calls that Python 3.11 does not wrap. Each raises OSError with the call's name."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x1000, 0x4000, 0x40000

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_MNT_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = -100, 0x8000, 0x1
_CAPABILITY_VERSION_3 = 0x20080522
_MOUNT_SETATTR = 442
_NUMBERS = {
    "x86_64": {"pivot_root": 155, "capset": 126},
    "aarch64": {"pivot_root": 41, "capset": 91},
}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _check(result: int, call: str) -> None:
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, f"{call}: {os.strerror(code)}")


def _number(name: str) -> int:
    machine = platform.machine()
    if machine not in _NUMBERS:
        raise OSError(f"{name}: no system call number known for {machine}")
    return _NUMBERS[machine][name]


def unshare(flags: int) -> None:
    """Move this process (for CLONE_NEWPID: its next child) into namespaces of its own."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: Path, kind: str | None, flags: int, options: str | None = None) -> None:
    """mount(2)."""
    encoded = [None if text is None else text.encode() for text in (source, str(target), kind, options)]
    result = _libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3])
    _check(result, f"mount {target}")


def make_read_only(target: Path, recursive: bool) -> None:
    """Forbid writing to the mount `target`, and to every mount below it if `recursive`; needs Linux 5.12."""
    attributes = struct.pack("<QQQQ", _MOUNT_ATTR_RDONLY, 0, 0, 0)
    call = (ctypes.c_long(_MOUNT_SETATTR), ctypes.c_int(_AT_FDCWD), str(target).encode())
    flags = ctypes.c_uint(_AT_RECURSIVE if recursive else 0)
    result = _libc.syscall(*call, flags, attributes, ctypes.c_size_t(len(attributes)))
    _check(result, f"mount_setattr {target}")


def pivot_root(new_root: Path) -> None:
    """Make `new_root` the root of this mount namespace and let go of the old one."""
    os.chdir(new_root)
    _check(_libc.syscall(ctypes.c_long(_number("pivot_root")), b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", ctypes.c_int(_MNT_DETACH)), "umount2")
    os.chdir("/")


def _prctl(option: int, argument: int, call: str) -> None:
    zero = ctypes.c_ulong(0)
    _check(_libc.prctl(ctypes.c_int(option), ctypes.c_ulong(argument), zero, zero, zero), call)


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send `signal_number` to this process when the thread that made it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal_number, "prctl(PR_SET_PDEATHSIG)")


def set_dumpable(dumpable: bool) -> None:
    """Whether others of the same user may read this process's memory and /proc entries."""
    _prctl(_PR_SET_DUMPABLE, int(dumpable), "prctl(PR_SET_DUMPABLE)")


def adopt_orphans() -> None:
    """Become the parent of every orphan among this process's descendants."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, "prctl(PR_SET_CHILD_SUBREAPER)")


def drop_privileges() -> None:
    """Give up every capability for good: neither exec of a setuid program nor being uid 0 brings one back."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, "prctl(PR_SET_NO_NEW_PRIVS)")
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    if os.geteuid() == 0:
        for capability in range(last + 1):
            _prctl(_PR_CAPBSET_DROP, capability, "prctl(PR_CAPBSET_DROP)")
    header = struct.pack("<Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc.syscall(ctypes.c_long(_number("capset")), header, bytes(24)), "capset")


def install_filter(program: bytes) -> None:
    """Install a classic BPF seccomp program (8 bytes an instruction) for this process and all it will make."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    filter_program = Program(len(program) // 8, program)
    mode_filter, pr_set_seccomp = 2, 22
    result = _libc.prctl(ctypes.c_int(pr_set_seccomp), ctypes.c_ulong(mode_filter), ctypes.byref(filter_program))
    _check(result, "prctl(PR_SET_SECCOMP)")

"""The system calls that a candidate is refused, as a seccomp program."""

from __future__ import annotations

import errno
import platform
import struct

from evaluation.sandbox import syscalls

_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_OFFSET_NUMBER, _OFFSET_ARCH, _OFFSET_FIRST_ARGUMENT = 0, 4, 16
_X32_BIT = 0x40000000
_CLONE3 = 435

_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE = {"x86_64": 56, "aarch64": 220}
_NEW_NAMESPACES = 0x7E020000
"""Every CLONE_NEW* flag that clone takes."""

_REFUSED = {
    "x86_64": {
        "ptrace": 101, "pivot_root": 155, "chroot": 161, "mount": 165, "umount2": 166, "sched_setaffinity": 203,
        "keyctl": 250, "add_key": 248, "unshare": 272, "perf_event_open": 298, "setns": 308,
        "process_vm_readv": 310, "process_vm_writev": 311, "bpf": 321, "userfaultfd": 323,
    },
    "aarch64": {
        "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "unshare": 97, "ptrace": 117,
        "sched_setaffinity": 122, "add_key": 217, "keyctl": 219, "perf_event_open": 241, "setns": 268,
        "process_vm_readv": 270, "process_vm_writev": 271, "bpf": 280, "userfaultfd": 282,
    },
}  # fmt: skip
_REFUSED_EVERYWHERE = {"io_uring_setup": 425, "move_mount": 429, "fsopen": 430, "pidfd_getfd": 438,
                       "mount_setattr": 442}  # fmt: skip


def supported() -> bool:
    """Whether this machine's system call numbers are known here."""
    return platform.machine() in _ARCH


def refuse_dangerous_calls() -> None:
    """Refuse, with EPERM, calls that change cores, namespaces, mounts or other processes' memory.

    Needs no_new_privs. Refusing sched_setaffinity is what keeps a candidate on the cores that it is timed on.
    """
    syscalls.install_filter(_program(platform.machine()))


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


def _program(machine: str) -> bytes:
    refuse = _instruction(_RETURN, _REFUSE | errno.EPERM)
    lines = [
        _instruction(_LOAD, _OFFSET_ARCH),
        _instruction(_JUMP_EQUAL, _ARCH[machine], 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _OFFSET_NUMBER),
        _instruction(_JUMP_GREATER_EQUAL, _X32_BIT, 0, 1),
        refuse,
        # clone3 hides its flags behind a pointer; ENOSYS makes the C library fall back to clone.
        _instruction(_JUMP_EQUAL, _CLONE3, 0, 1),
        _instruction(_RETURN, _REFUSE | errno.ENOSYS),
    ]
    for number in (_REFUSED[machine] | _REFUSED_EVERYWHERE).values():
        lines += [_instruction(_JUMP_EQUAL, number, 0, 1), refuse]
    lines += [
        _instruction(_JUMP_EQUAL, _CLONE[machine], 0, 3),
        _instruction(_LOAD, _OFFSET_FIRST_ARGUMENT),
        _instruction(_JUMP_ANY_BIT, _NEW_NAMESPACES, 0, 1),
        refuse,
        _instruction(_RETURN, _ALLOW),
    ]
    return b"".join(lines)

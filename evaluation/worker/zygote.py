"""A process with torch imported that makes one-shot workers of itself: `python -m evaluation.worker.zygote FD LEVEL
HARNESS`. HARNESS is the library for calls on a device; empty where calls are made on the CPU.

The judge asks over a socket, one JSON object and three descriptors (worker socket, output pipe, status pipe; the page
of evaluation/device/page.py where there is a device) for each worker, and gets the pid of its supervisor. Both sides of
this socket are ours; no candidate holds it.

Of each worker there are up to three processes: the supervisor that the judge knows and kills; at sandbox level 1 and
above the first process of the new namespaces; and the candidate's own. The kernel kills each with its parent.
"""

from __future__ import annotations

import array
import fcntl
import gc
import json
import os
import signal
import socket
import struct
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

from evaluation.device.harness import Harness
from evaluation.sandbox import sandbox, syscalls
from evaluation.worker import main as worker
from evaluation.worker.device_calls import DeviceCalls

_MAX_REQUEST_BYTES = 64 * 1024


def main() -> None:
    """Serve until the judge closes its end."""
    syscalls.die_with_parent(signal.SIGKILL)
    syscalls.set_dumpable(False)
    gc.freeze()
    control = socket.socket(fileno=int(sys.argv[1]))
    level = sandbox.Level(int(sys.argv[2])) if sys.argv[2] else sandbox.best_level()
    harness = Harness.load(Path(sys.argv[3])) if sys.argv[3] else None
    if harness is None:
        # Before the forks, to be done once. Where there is a device, this import asks CUDA for it, and a process that
        # has asked leaves its forks none.
        import torch.utils.cpp_extension  # noqa: F401
    control.send(json.dumps({"level": int(level)}).encode())
    # The kernel reaps supervisors, whose ends the judge learns through their status pipes.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, descriptors = _receive(control)
        if request is None:
            return
        supervisor = os.fork()
        if supervisor == 0:
            control.close()
            _supervise(level, harness, Path(request["folder"]), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        control.send(json.dumps({"pid": supervisor}).encode())


def _receive(control: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    fds = array.array("i")
    data, ancillary, _, _ = control.recvmsg(_MAX_REQUEST_BYTES, socket.CMSG_SPACE(4 * fds.itemsize))
    for _, _, content in ancillary:
        fds.frombytes(content)
    return (json.loads(data) if data else None), list(fds)


def _supervise(level: sandbox.Level, harness: Harness | None, folder: Path, fds: list[int]) -> NoReturn:
    """In the supervisor: put the candidate's process into its sandbox and see it end."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        syscalls.die_with_parent(signal.SIGKILL)
        os.setsid()
        sandbox.enter_namespaces(level)
        if level is sandbox.Level.PROCESS or os.fork() == 0:
            _first_process(level, harness, folder, fds)
        for descriptor in fds:
            os.close(descriptor)
        os.wait()
        os._exit(0)
    except Exception:  # noqa: BLE001 - whatever it is, the process ends here
        # The judge sees a worker that ends without a greeting; this is for its log.
        traceback.print_exc()
    finally:
        os._exit(1)


def _first_process(level: sandbox.Level, harness: Harness | None, folder: Path, fds: list[int]) -> NoReturn:
    """Parent of the candidate: reap what it leaves and write its wait status, four bytes, to the status pipe."""
    if level is not sandbox.Level.PROCESS:
        syscalls.die_with_parent(signal.SIGKILL)
    syscalls.adopt_orphans()
    home = sandbox.enter_root(level, folder)
    worker_fd, output_fd, status_fd, *page_fd = fds
    candidate = os.fork()
    if candidate == 0:
        os.close(status_fd)
        _candidate(home, harness, [worker_fd, *page_fd], output_fd)
    for descriptor in (worker_fd, output_fd, *page_fd):
        os.close(descriptor)
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            os._exit(0)
        if pid == candidate:
            os.write(status_fd, struct.pack("<i", status))


def _candidate(home: Path, harness: Harness | None, kept: list[int], output_fd: int) -> NoReturn:
    """`kept`: the worker's socket, and the page where there is one; all other descriptors are closed."""
    try:
        syscalls.die_with_parent(signal.SIGKILL)
        os.chdir(home)
        os.environ.update(HOME=str(home), TMPDIR=str(home))
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(output_fd, 1)
        os.dup2(output_fd, 2)
        # Out of the way of the places that they get.
        kept = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 3 + len(kept)) for descriptor in kept]
        worker_fd, *page_fd = [os.dup2(descriptor, 3 + at) for at, descriptor in enumerate(kept)]
        os.closerange(3 + len(kept), os.sysconf("SC_OPEN_MAX"))
        sandbox.confine()
    except OSError as error:
        os.write(2, f"sandbox: {error}\n".encode())
        os._exit(1)
    device = DeviceCalls(harness, page_fd[0]) if harness is not None else None
    worker.serve(socket.socket(fileno=worker_fd), home, device)
    os._exit(0)


if __name__ == "__main__":
    main()

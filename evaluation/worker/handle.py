"""The judge's side of the zygote and of each worker: start, talk within a deadline, park, find out how it ended."""

from __future__ import annotations

import array
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import evaluation
from evaluation.device.page import Page
from evaluation.errors import CandidateFault, EvaluatorError, JudgeLost
from evaluation.sandbox.sandbox import Level, clean_environment
from evaluation.settings import LimitSettings
from evaluation.timing import lane
from evaluation.verdict import Fault, Status
from evaluation.worker import processes, wire
from evaluation.worker.monitor import Monitor, Pipes

# Freed memory stays with the process. Otherwise it depends on the layout of the heap, which differs between two
# processes with the same code, whether each call pays for fresh pages: up to a third of a call's time was measured.
_STEADY_HEAP = {"MALLOC_MMAP_THRESHOLD_": str(32 * 2**20), "MALLOC_TRIM_THRESHOLD_": str(2**40)}
_START_LIMIT_S = 120.0
_HELLO_LIMIT_S = 30.0
_END_LIMIT_S = 2.0
_EXCHANGE_BYTES = 4096
_STOP = signal.SIGSTOP
_LIMIT_WORDS = {
    Fault.MEMORY_LIMIT: (Status.OUT_OF_MEMORY, "its processes held more than {memory_bytes} bytes of memory"),
    Fault.PROCESS_LIMIT: (Status.RUNTIME_ERROR, "it started more than {processes} processes and threads"),
    Fault.OUTPUT_LIMIT: (Status.RUNTIME_ERROR, "it printed more than {output_bytes} bytes"),
}


class Zygote:
    """The process that workers are forked from. Start it early: it needs about two seconds to import torch."""

    def __init__(self, threads: int, level: Level | None = None, harness: Path | None = None) -> None:
        """`level`: the sandbox level of its workers; None is the highest that this machine permits.

        `harness`: the library for calls on a device (evaluation/device/harness.py); None where calls are on the CPU.
        """
        wanted = "" if level is None else str(int(level))
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "evaluation.worker.zygote", str(its.fileno()), wanted, str(harness or "")],
                env=clean_environment(threads) | _STEADY_HEAP,
                cwd=Path(evaluation.__file__).parents[1],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
            )
        self._on_device = harness is not None
        self._asking = threading.RLock()
        """Held from a question to its answer."""
        self._folder = _new_folder()
        self._socket = mine
        self._socket.settimeout(_START_LIMIT_S)
        self._level: Level | None = None

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    @property
    def level(self) -> Level:
        """The sandbox level that workers get; waits for the zygote to be ready."""
        with self._asking:
            if self._level is None:
                self._level = Level(self._answer()["level"])
            return self._level

    def spawn(self, limits: LimitSettings) -> Worker:
        """Fork one worker and wait until it is inside its sandbox, and has its device. Several threads may ask."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        output_read, output_write = os.pipe()
        status_read, status_write = os.pipe()
        request = json.dumps({"folder": str(folder)}).encode()
        with ExitStack() as passed:
            passed.callback(its.close)
            passed.callback(os.close, output_write)
            passed.callback(os.close, status_write)
            descriptors = [its.fileno(), output_write, status_write]
            page = None
            if self._on_device:
                shared = passed.enter_context(Page.create())
                descriptors.append(shared.fileno())
                page = Page(shared.fileno())
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
            with self._asking:
                self.level  # noqa: B018 - the greeting must be read before the first answer
                try:
                    self._socket.sendmsg([request], ancillary)
                except (BrokenPipeError, ConnectionResetError) as error:
                    raise JudgeLost("the zygote has ended; see the evaluator's log") from error
                supervisor = self._answer()["pid"]
        pipes = Pipes(output_read, status_read)
        monitor = Monitor(supervisor, pipes, limits, first_process=self.level is not Level.PROCESS)
        return Worker(mine, monitor, folder, limits, page)

    def close(self) -> None:
        """End the zygote."""
        self._socket.close()
        self._process.wait()
        shutil.rmtree(self._folder)

    def _answer(self) -> dict[str, Any]:
        try:
            data = self._socket.recv(4096)
        except (TimeoutError, ConnectionResetError) as error:
            raise JudgeLost("the zygote does not answer; see the evaluator's log") from error
        if not data:
            raise JudgeLost(f"the zygote ended with code {self._process.wait()}; see the evaluator's log")
        answer: dict[str, Any] = json.loads(data)
        return answer


class Worker:
    """One candidate's processes. Every method raises CandidateFault when the candidate breaks the rules or ends."""

    def __init__(
        self, sock: socket.socket, monitor: Monitor, folder: Path, limits: LimitSettings, page: Page | None
    ) -> None:
        self.page = page
        """Shared with its device; None where it has none."""
        self._socket = sock
        self._monitor = monitor
        self._folder = folder
        self._limits = limits
        self._pids: list[int] = []
        self.memory_fd = -1
        """The memory of its main process, open for reading."""
        monitor.start()
        try:
            self.receive((wire.Kind.HELLO,), _HELLO_LIMIT_S, _HELLO_LIMIT_S)
            self.memory_fd = processes.open_memory(monitor.below()[0])
        except CandidateFault as fault:
            self.close()
            raise EvaluatorError(f"a worker could not enter its sandbox: {fault.message} {self.log}") from fault
        except EvaluatorError:
            self.close()
            raise

    @property
    def log(self) -> str:
        """The tail of what the candidate printed."""
        return self._monitor.log

    def send(self, frame: wire.Frame, limit_s: float) -> None:
        """Send one frame within `limit_s` seconds."""
        self._socket.settimeout(limit_s)
        try:
            wire.send(self._socket, frame)
        except TimeoutError as error:
            raise self._too_slow(limit_s) from error
        except wire.Closed as error:
            raise self._ended() from error

    def begin_exchanges(self, limit_s: float) -> None:
        """Before `exchange`, once for several: an answer may take `limit_s` seconds."""
        self._socket.settimeout(None)  # a timeout of Python's would cost two more system calls a call
        span = struct.pack("ll", *divmod(int(limit_s * 1e6), 10**6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, span)

    def exchange(self, question: bytes) -> tuple[bytes, float]:
        """Let its processes go on, send a frame, wait for the answer's first bytes and tell the processes to stop.

        Returns the bytes, which are all of a short answer, and the seconds from sending until the last was told, by the
        judge's clock. Nothing else is done in these: what is done here adds to the time of every call.
        """
        sock, pids, kill, stop, clock = self._socket, self._pids, os.kill, _STOP, time.perf_counter_ns
        self.resume()
        started = clock()
        try:
            sock.sendall(question)
            answer = sock.recv(_EXCHANGE_BYTES)
            try:
                for pid in pids:
                    kill(pid, stop)
            except ProcessLookupError:
                processes.signal_all(pids, stop)
            wall_s = (clock() - started) * 1e-9
        except BlockingIOError as error:
            raise self._too_slow(self._limits.call_s) from error
        except (BrokenPipeError, ConnectionResetError) as error:
            raise self._ended() from error
        if not answer:
            raise self._ended()
        return answer, wall_s

    def receive(self, expected: Sequence[wire.Kind], wait_s: float, limit_s: float, begun: bytes = b"") -> wire.Frame:
        """Wait `wait_s` seconds, what is left of `limit_s`, for a frame of an expected kind; `begun` is there."""
        self._socket.settimeout(max(wait_s, 1e-3))
        try:
            return wire.receive(self._socket, expected, begun=begun)
        except TimeoutError as error:
            raise self._too_slow(limit_s) from error
        except wire.Closed as error:
            raise self._ended() from error
        except wire.WireError as error:
            raise protocol_fault(error) from error

    def park(self) -> None:
        """Stop every process of the candidate, so that it neither works nor looks while the judge does."""
        self._pids = self._stopped(self._monitor.below)

    def pause(self) -> None:
        """Stop those of its processes that `park` last found."""
        processes.signal_all(self._pids, signal.SIGSTOP)

    def settle(self) -> None:
        """Wait until `pause` has taken effect, also against one of several processes that wakes another."""
        if len(self._pids) > 1:
            self._stopped(lambda: self._pids)

    def resume(self) -> None:
        """Let them go on."""
        processes.signal_all(self._pids, signal.SIGCONT)

    def prepare_for_timing(self, cores: set[int]) -> None:
        """Keep every thread on `cores`, which the system call filter forbids to leave, ahead of others' processes."""
        below = self._monitor.below()
        processes.pin_all(below, cores)
        for pid in below:
            processes.set_nice(pid, lane.TIMED_NICE)

    def begin_end(self) -> None:
        """Kill what runs, without waiting for its end as `close` does: a device's context is given up for long."""
        processes.signal_all(self._monitor.below(), signal.SIGKILL)

    def close(self) -> None:
        """Kill the whole tree and remove its folder."""
        self._monitor.close()
        if self.memory_fd >= 0:
            os.close(self.memory_fd)
        self._socket.close()
        shutil.rmtree(self._folder)

    def _stopped(self, find: Callable[[], list[int]]) -> list[int]:
        try:
            return processes.stop_all(find)
        except processes.Unstoppable as error:
            raise CandidateFault(Status.TAMPERING, Fault.PROCESS_LIMIT, str(error)) from error

    def _too_slow(self, limit_s: float) -> CandidateFault:
        return CandidateFault(Status.TIMEOUT, Fault.WALL_LIMIT, f"it did not answer within {limit_s:.0f} s")

    def _ended(self) -> CandidateFault:
        """Why the socket was closed, by what the monitor and the supervisor saw."""
        deadline = time.monotonic() + _END_LIMIT_S
        monitor = self._monitor
        while monitor.is_alive() and not monitor.knows_the_end and time.monotonic() < deadline:
            time.sleep(0.005)
        if monitor.error is not None:
            raise EvaluatorError(f"a worker could not be watched: {monitor.error}") from monitor.error
        if monitor.fault is not None:
            status, words = _LIMIT_WORDS[monitor.fault]
            limits = ("memory_bytes", "processes", "output_bytes")
            text = words.format(**{name: getattr(self._limits, name) for name in limits})
            return CandidateFault(status, monitor.fault, text)
        wait_status = monitor.wait_status
        if wait_status is None:
            return protocol_fault("it closed the evaluator's socket and went on")
        if os.WIFSIGNALED(wait_status):
            number = os.WTERMSIG(wait_status)
            text = f"its process was ended by signal {number} ({signal.strsignal(number)})"
            return CandidateFault(Status.RUNTIME_ERROR, Fault.KILLED_BY_SIGNAL, text)
        code = os.WEXITSTATUS(wait_status)
        return CandidateFault(Status.RUNTIME_ERROR, Fault.EXITED, f"its process exited by itself with code {code}")


def _new_folder() -> Path:
    """For the workers' folders of this process. Those of processes that were killed are removed."""
    parent = lane.runtime_folder() / "workers"
    parent.mkdir(exist_ok=True)
    for old in parent.iterdir():
        if not Path("/proc", old.name.split("-")[0]).exists():
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=parent))


def protocol_fault(reason: object) -> CandidateFault:
    """The candidate wrote to the evaluator's socket, or changed what writes to it."""
    return CandidateFault(Status.TAMPERING, Fault.PROTOCOL, f"the evaluator's protocol was broken: {reason}")

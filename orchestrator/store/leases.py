"""Who is alive, told by counters: a worker's lease is one file that it counts up, and every claim is a link to it.

```
<count> <unix seconds> <loops> <at work> <judges> <at work>\n      64 bytes, overwritten in place by each beat
{"id": ..., "holder": {...}, "job": ..., "worker": ..., "lease_s": ...}
```

One beat renews all claims of a worker, and a crash lets all of them run out. Whether a lease has run out is decided by
the observer's own monotonic clock: it has seen the same count for `lease_s` seconds. Clocks of two hosts are never
compared. On one host and boot the process table tells of a death at once. Files are opened anew for each look: that is
what gives close-to-open consistency on NFS, where `stat` may be a minute old.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType

log = logging.getLogger(__name__)

LEASE_S = 60.0
"""Seconds without a beat after which others take over."""
BEATS_PER_LEASE = 6
LINKS_MAX = 20_000
"""Links to one lease file before the next file is begun; ext4 allows 65,000."""
_HEADER_BYTES = 64


class Liveness(StrEnum):
    """What is known about the process behind a claim."""

    ALIVE = "ALIVE"
    DEAD = "DEAD"
    UNKNOWN = "UNKNOWN"
    """Not yet watched for long enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One process, told apart from a later one with the same number by its start."""

    host: str
    boot_id: str
    pid_namespace: str
    """Processes of two containers on one kernel have separate numbers."""
    pid: int
    started_ticks: int
    """Clock ticks from boot to the process's start, as in /proc/PID/stat."""

    @classmethod
    def current(cls) -> Holder:
        """This process."""
        pid = os.getpid()
        process = _process(pid)
        if process is None:
            raise RuntimeError("/proc does not show this process; claims need Linux's /proc")
        boot_id, namespace = _place()
        return cls(
            host=socket.gethostname(), boot_id=boot_id, pid_namespace=namespace, pid=pid, started_ticks=process[1]
        )

    def liveness(self) -> Liveness:
        """What the process table says; UNKNOWN of another host or container, and of a stopped process."""
        if (self.boot_id, self.pid_namespace) != _place():
            return Liveness.UNKNOWN
        process = _process(self.pid)
        if process is None or process[1] != self.started_ticks:
            return Liveness.DEAD
        return Liveness.UNKNOWN if process[0] in "Tt" else Liveness.ALIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a worker has at work."""

    loops: int = 1
    loops_at_work: int = 0
    judges: int = 0
    judges_at_work: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """A lease as it is read."""

    id: str
    holder: Holder
    job: str
    worker: str
    lease_s: float
    count: int
    at: float
    """Unix seconds of the last beat by its own host's clock: to be shown, never to be decided by."""
    load: Load


def read_pulse(path: Path) -> Pulse | None:
    """The lease behind this name, or None when there is none."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    count, at, *load = data[:_HEADER_BYTES].split()
    body = json.loads(data[_HEADER_BYTES:])
    loops, loops_at_work, judges, judges_at_work = map(int, load)
    return Pulse(
        id=body["id"],
        holder=Holder(**body["holder"]),
        job=body["job"],
        worker=body["worker"],
        lease_s=body["lease_s"],
        count=int(count),
        at=float(at),
        load=Load(loops=loops, loops_at_work=loops_at_work, judges=judges, judges_at_work=judges_at_work),
    )


class Lease:
    """This process's own lease, in `folder`. While it is open a thread beats; after that others see it run out."""

    def __init__(self, folder: Path, job: str, worker: str = "", lease_s: float = LEASE_S) -> None:
        self.holder = Holder.current()
        self.job = job
        self.worker = worker
        self.id = f"{job}.{worker or 'w'}-{self.holder.pid}-{secrets.token_hex(3)}"
        self.load: Callable[[], Load] = Load
        self._folder = folder
        self._lease_s = lease_s
        self._lock = threading.Lock()
        self._count = 0
        self._links = 0
        self._files: list[tuple[Path, int]] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._beat_on, name="heartbeat", daemon=True)

    def link(self, path: Path) -> bool:
        """Give the lease a further name; False when the name is taken. Of many callers exactly one gets True."""
        with self._lock:
            if self._links >= LINKS_MAX * len(self._files):
                self._begin_file()
            self._links += 1
            source = self._files[-1][0]
        try:
            os.link(source, path)
        except FileExistsError:
            # The reply to a link that was made may be lost on its way from a file server.
            return path.exists() and path.samefile(source)
        return True

    def beat(self) -> None:
        """Count up, in all files."""
        with self._lock:
            self._count += 1
            header = self._header()
            for _, handle in self._files:
                os.pwrite(handle, header, 0)
                os.fsync(handle)

    def __enter__(self) -> Lease:
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._lock:
            self._begin_file()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closed.set()
        self._thread.join()
        with self._lock:
            for path, handle in self._files:
                path.unlink(missing_ok=True)
                os.close(handle)
            self._files.clear()

    def _begin_file(self) -> None:
        path = self._folder / f"{self.id}.{len(self._files)}.lease"
        body = {"id": self.id, "holder": asdict(self.holder), "job": self.job, "worker": self.worker}
        text = json.dumps({**body, "lease_s": self._lease_s})
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(handle, self._header() + text.encode())
        os.fsync(handle)
        self._files.append((path, handle))

    def _header(self) -> bytes:
        load = self.load()
        figures = f"{load.loops} {load.loops_at_work} {load.judges} {load.judges_at_work}"
        return f"{self._count} {time.time():.3f} {figures}".ljust(_HEADER_BYTES - 1).encode() + b"\n"

    def _beat_on(self) -> None:
        while not self._closed.wait(self._lease_s / BEATS_PER_LEASE):
            try:
                self.beat()
            except OSError:
                # A file server that is away for a moment; the next beat may reach it, else others take over.
                log.exception("heartbeat")


class Watch:
    """What this process has seen of others' leases so far. May be used by several threads."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._seen: dict[str, tuple[int, float, bool]] = {}
        """Lease -> its count, when it was first seen at that count, whether it was ever seen to move."""

    def liveness(self, pulse: Pulse) -> Liveness:
        """DEAD once the lease has run out or its process is gone; ALIVE when it was seen to beat, or runs here."""
        now = self._monotonic()
        seen = self._seen.get(pulse.id)
        if seen is None or seen[0] != pulse.count:
            seen = self._seen[pulse.id] = (pulse.count, now, seen is not None)
        here = pulse.holder.liveness()
        if here is Liveness.DEAD or now - seen[1] >= pulse.lease_s:
            return Liveness.DEAD
        return Liveness.ALIVE if seen[2] else here


def live_leases(folder: Path, watch: Watch) -> list[tuple[Pulse, Liveness]]:
    """The workers that have a lease in `folder`, each once, with what is known of them."""
    found: dict[str, Pulse] = {}
    for path in sorted(folder.glob("*.lease")):
        pulse = read_pulse(path)
        if pulse is not None:
            found[pulse.id] = pulse
    return [(pulse, watch.liveness(pulse)) for pulse in found.values()]


def _place() -> tuple[str, str]:
    """Kernel and process table: only within one of each do process numbers mean something."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return boot_id, str(Path("/proc/self/ns/pid").readlink())


def _process(pid: int) -> tuple[str, int] | None:
    """State letter and start of a running process; None when there is none, or only a zombie that nobody reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *rest = stat.rpartition(")")[2].split()
    return None if state in "ZX" else (state, int(rest[18]))

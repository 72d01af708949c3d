"""Answers build requests: from the cache, by the lite headers in about a second, by torch's own headers otherwise."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from evaluation.building.cache import Cache, CacheStats, Entry
from evaluation.building.compile import Workshop
from evaluation.building.places import Places, places_here
from evaluation.building.request import BuildReply, BuildRequest, RequestError
from evaluation.building.strategy import Strategy
from evaluation.building.tokens import normalise
from evaluation.building.toolchain import Toolchain, cpu_features
from evaluation.settings import LimitSettings

_CLAIM_POLL_S = 0.05
_FORMAT = "2"


@dataclass(frozen=True, slots=True)
class _Keys:
    """Where success and failure are kept. A failure's messages name lines, so that its key has every byte."""

    success: str
    failure: str


class Builder:
    """Builds what candidates ask for. Thread-safe; one per process is enough.

    `cache_dir` may be shared by many hosts. `cuda_arch` is the one architecture that CUDA sources are compiled for,
    as in `sm_90a`, unless the request names its own.
    """

    def __init__(self, cache_dir: Path, limits: LimitSettings, cuda_arch: str = "90a") -> None:
        self._cache = Cache(cache_dir)
        self._runtime = _runtime_folder()
        self._toolchain = Toolchain.find()
        places = Places(self._runtime, places_here())
        workshop = Workshop(toolchain=self._toolchain, limits=limits, scratch=self._runtime, places=places)
        self._strategy = Strategy(workshop, cuda_arch, cache_dir)
        self._cuda_arch = cuda_arch
        self._lock = threading.Lock()
        self._running: dict[str, Future[BuildReply]] = {}

    def build(self, request: BuildRequest) -> BuildReply:
        """Build, or find what was built before. Equal requests at the same time are built once.

        A failure of the candidate's, limits included, is a reply with `ok` false. Raises ToolchainError when the
        compiler or torch is missing, OSError when the cache or the scratch folder cannot be written.
        """
        start = time.monotonic()
        try:
            request.check()
            keys = self._keys(request)
            reply = self._once(request, keys)
        except RequestError as error:
            reply = _failure(request, "", f"{error}")
        return replace(reply, wall_s=time.monotonic() - start)

    def library(self, key: str) -> Path | None:
        """The shared object of a build that was a success, by `BuildReply.key`; None where the cache has lost it."""
        found = self._cache.get(key)
        return None if found is None else found[1]

    def stats(self) -> CacheStats:
        """Size of the cache, and how often it had the answer."""
        return self._cache.stats()

    def prune(self, max_bytes: int) -> int:
        """Bound the cache; returns the bytes removed."""
        return self._cache.prune(max_bytes)

    def _once(self, request: BuildRequest, keys: _Keys) -> BuildReply:
        with self._lock:
            running = self._running.get(keys.failure)
            if running is None:
                future: Future[BuildReply] = Future()
                self._running[keys.failure] = future
        if running is not None:
            return replace(running.result(), cached=True)
        try:
            reply = self._find_or_build(request, keys)
        except BaseException as error:
            future.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._running[keys.failure]
        future.set_result(reply)
        return reply

    def _find_or_build(self, request: BuildRequest, keys: _Keys) -> BuildReply:
        found = self._find(request, keys)
        self._cache.count(hit=found is not None)
        if found is not None:
            return found
        with self._claim(keys.success):
            found = self._find(request, keys)
            return found if found is not None else self._build(request, keys)

    def _find(self, request: BuildRequest, keys: _Keys) -> BuildReply | None:
        for key in (keys.success, keys.failure):
            found = self._cache.get(key)
            if found is not None:
                entry, path = found
                return _reply(request, key, entry, path, cached=True)
        return None

    def _build(self, request: BuildRequest, keys: _Keys) -> BuildReply:
        start = time.monotonic()
        with self._strategy.build(request) as built:
            wall_s = time.monotonic() - start
            library = built.library
            digest = hashlib.sha256(library.read_bytes()).hexdigest() if library else None
            entry = Entry(tier=built.tier, wall_s=wall_s, sha256=digest, diagnostics=built.diagnostics)
            key = keys.success if library else keys.failure
            # How long a build takes depends on the load of the machine: running out of time is not remembered.
            path = self._cache.put(key, entry, library) if built.final else None
            return _reply(request, key, entry, path, cached=False)

    def _keys(self, request: BuildRequest) -> _Keys:
        exact = json.dumps([_FORMAT, self._toolchain.fingerprint, self._cuda_arch, *astuple(request)])
        same_program = replace(
            request,
            cpp_sources=[normalise(source) for source in request.cpp_sources],
            cuda_sources=[normalise(source) for source in request.cuda_sources],
            headers={path: normalise(text) for path, text in request.headers.items()},
        )
        parts = [_FORMAT, self._toolchain.fingerprint, self._cuda_arch, *astuple(same_program)]
        if any("native" in flag for flag in [*request.extra_cflags, *request.extra_cuda_cflags]):
            parts.append(cpu_features())
        return _Keys(*(hashlib.sha256(text.encode()).hexdigest() for text in (json.dumps(parts), "failure" + exact)))

    @contextmanager
    def _claim(self, key: str) -> Iterator[None]:
        """One builder per key on this host. The kernel frees the claim when its holder dies, however it dies."""
        path = self._runtime / f"{key}.claim"
        with path.open("w") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(_CLAIM_POLL_S)
            yield


def _runtime_folder() -> Path:
    """A folder of this user on this machine's own disk."""
    folder = Path(tempfile.gettempdir()) / f"kernelsweep-{os.getuid()}" / "building"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user; remove it or set TMPDIR")
    return folder


def _reply(request: BuildRequest, key: str, entry: Entry, path: Path | None, *, cached: bool) -> BuildReply:
    return BuildReply(
        ok=path is not None,
        path=str(path) if path else None,
        name=request.name,
        tier=entry.tier,
        cached=cached,
        wall_s=0.0,
        key=key,
        diagnostics=entry.diagnostics,
    )


def _failure(request: BuildRequest, key: str, message: str) -> BuildReply:
    return BuildReply(
        ok=False, path=None, name=request.name, tier="stock", cached=False, wall_s=0.0, key=key, diagnostics=message
    )

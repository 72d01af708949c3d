"""Ports for servers that have to be told one."""

from __future__ import annotations

import os
import random
import socket

_FIRST, _EACH, _WORKERS = 10_000, 500, 40
"""Below those that the kernel gives to whoever asks for any, which another test may get meanwhile (32768 and above)."""


def free_ports(count: int) -> list[int]:
    """So many that nobody has; those of different pytest workers differ."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    own = range(_FIRST + worker * _EACH, _FIRST + (worker + 1) * _EACH)
    found: list[int] = []
    for port in random.SystemRandom().sample(own, len(own)):
        with socket.socket() as trial:
            try:
                trial.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError(f"fewer than {count} of the ports {own.start} to {own.stop - 1} are free")

"""Keeps MLflow up with a running sweep, in a process of its own: a slow or broken MLflow never hurts the sweep.

`python -m orchestrator.tracking.follow --root DIR --settings JSON --parent PID` follows until its stdin is closed, then
syncs once more and ends: 0 when everything is projected, 1 when the last sync failed.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from evaluation.serialize import from_plain, to_plain
from orchestrator.settings import TrackingSettings
from orchestrator.store.store import Store
from orchestrator.sweep.processes import die_with
from orchestrator.tracking.sync import Tracker, TrackingBusyError

log = logging.getLogger(__name__)

INTERVAL_S = 2.0
"""Seconds between two looks at the store while cells run."""
INTERVAL_MAX_S = 60.0
"""The same after failures in a row, each of which doubles it."""
BUSY_S = 0.5
"""Seconds before the next try when another process writes to the destination."""
DRAIN_S = 60.0
"""Seconds that the follower gets for its last sync."""


class Follower:
    """The coordinator's handle on the process."""

    def __init__(self, store: Store, settings: TrackingSettings, log_path: Path) -> None:
        command = [sys.executable, "-m", "orchestrator.tracking.follow", "--root", str(store.root)]
        command += ["--settings", json.dumps(to_plain(settings)), "--parent", str(os.getpid())]
        self.log_path = log_path
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with log_path.open("ab") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output)

    def drain(self) -> bool:
        """Let it project what is left; False when it failed or took longer than DRAIN_S, and was killed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            return self._process.wait(DRAIN_S) == 0
        except subprocess.TimeoutExpired:
            self.kill()
            return False

    def kill(self) -> None:
        """End it at once; the next sync takes up what is missing."""
        self._process.kill()
        self._process.wait()


def follow(tracker: Tracker) -> bool:
    """Sync again and again until stdin is closed, and once more; whether the last sync succeeded."""
    interval_s = INTERVAL_S
    while True:
        closed = bool(select.select([sys.stdin], [], [], interval_s)[0])
        try:
            tracker.sync()
            interval_s, succeeded = INTERVAL_S, True
        except TrackingBusyError:  # another sweep's follower, for a moment
            interval_s, succeeded, closed = INTERVAL_S, False, False
            time.sleep(BUSY_S)
        except Exception:
            # MLflow's trouble, of whatever kind, waits for the next try; the store loses nothing.
            log.exception("sync failed")
            interval_s, succeeded = min(2 * interval_s, INTERVAL_MAX_S), False
        if closed:
            return succeeded


def main(argv: list[str] | None = None) -> int:
    """Follow one store; ends with its parent."""
    parser = argparse.ArgumentParser(prog="python -m orchestrator.tracking.follow", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="the store's folder")
    parser.add_argument("--settings", required=True, help="tracking settings as JSON")
    parser.add_argument("--parent", type=int, required=True, help="process that started it")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    die_with(arguments.parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(10)  # the sweep has the first claim on the cores: it takes times
    settings = from_plain(TrackingSettings, json.loads(arguments.settings))
    return 0 if follow(Tracker(Store(arguments.root), settings)) else 1


if __name__ == "__main__":
    sys.exit(main())

"""What this machine's GPU can do at most, measured once and kept: <cache>/roofline/<UUID>.json.

A file holds for one GPU under one torch, one driver and one state of the measuring code; whatever does not fit, or was
damaged, is measured anew, which the log says.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import torch

from evaluation.device import harness
from evaluation.device.nvml import Device, DeviceStateAbsent
from evaluation.environment import gpu_uuid
from evaluation.profile import benchmarks
from evaluation.profile.rates import MeasuredRoofline
from evaluation.serialize import from_plain, to_plain
from evaluation.timing import lane
from evaluation.verdict import Conditions
from evaluation.worker import processes

_LOG = logging.getLogger(__name__)


def measured_roofline(cache_dir: Path) -> MeasuredRoofline:
    """Of the first CUDA device: from the cache, else measured in a few seconds while no other judge uses the device.

    At first the measuring code is built too, which takes longer. Not to be called by who holds the device. Raises
    EvaluatorError where it cannot be measured, JudgeLost where the device fails.
    """
    uuid = gpu_uuid()
    with ExitStack() as opened:
        try:
            state: Device | None = opened.enter_context(Device(uuid))
        except DeviceStateAbsent:
            state = None
        return _kept_or_measured(cache_dir, uuid, state)


def _kept_or_measured(cache_dir: Path, uuid: str, state: Device | None) -> MeasuredRoofline:
    driver = (state.driver if state else None) or ""
    key = {"uuid": uuid, "torch": str(torch.__version__), "driver": driver, "method": _method()}
    kept = Kept(cache_dir / "roofline" / f"{uuid}.json", key)
    found = kept.load()
    if found is not None:
        return found
    library = harness.build(cache_dir, benchmarks.SOURCE)
    with lane.device_held(uuid):
        # Whoever held the device may have measured.
        found = kept.load()
        if found is None:
            found = _measured(library, uuid, driver, state)
            kept.store(found)
    return found


def _measured(library: Path, uuid: str, driver: str, state: Device | None) -> MeasuredRoofline:
    started = time.monotonic()
    before = _conditions(state)
    figures = benchmarks.measure(library)
    return MeasuredRoofline(
        device_name=torch.cuda.get_device_name(0),
        uuid=uuid,
        torch=str(torch.__version__),
        driver=driver,
        bandwidths=figures.bandwidths,
        operations=figures.operations,
        absent=figures.absent,
        conditions=before + _conditions(state),
        wall_s=round(time.monotonic() - started, 3),
    )


def _conditions(state: Device | None) -> list[Conditions]:
    own = os.getpid()
    return [] if state is None else [state.conditions((own, *processes.descendants(own)))]


def _method() -> str:
    """Changes with the measuring code."""
    files = (Path(benchmarks.__file__), benchmarks.SOURCE)
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]


class Kept:
    """The file of one GPU. What is in it is believed only whole and for the same key."""

    def __init__(self, path: Path, key: dict[str, str]) -> None:
        self.path = path
        self._key = key

    def load(self) -> MeasuredRoofline | None:
        """None where there is nothing that holds; unless there is no file, the log says why."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            _LOG.warning("%s cannot be read and is measured anew: %s", self.path, error)
            return None
        try:
            return self._opened(json.loads(text))
        except (ValueError, RecursionError) as error:
            _LOG.warning("%s does not hold and is measured anew: %s", self.path, error)
            return None

    def store(self, found: MeasuredRoofline) -> None:
        """Whole, by a rename. Where that cannot be, the log says so, and the next judge measures again."""
        body = {"key": self._key, "roofline": to_plain(found)}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self.path.parent, prefix=".new-", delete=False) as file:
                try:
                    file.write(json.dumps({"sha256": _sha256(body), **body}, indent=1))
                    file.close()
                    Path(file.name).chmod(0o644)
                    Path(file.name).replace(self.path)
                except OSError:
                    with suppress(OSError):
                        Path(file.name).unlink()
                    raise
        except OSError as error:
            _LOG.warning("%s cannot be kept: %s", self.path, error)

    def _opened(self, data: Any) -> MeasuredRoofline:
        if not isinstance(data, dict) or data.keys() != {"sha256", "key", "roofline"}:
            raise ValueError("it is no roofline")
        if data["sha256"] != _sha256({"key": data["key"], "roofline": data["roofline"]}):
            raise ValueError("it was damaged")
        known = from_plain(dict[str, str], data["key"])
        if known != self._key:
            differing = [name for name, value in self._key.items() if known.get(name) != value]
            raise ValueError(f"it is of another {', '.join(differing)}")
        return from_plain(MeasuredRoofline, data["roofline"])


def _sha256(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()

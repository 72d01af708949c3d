"""Checks what this machine has of what a sweep needs. Each check looks at the thing itself and changes nothing,
but for the builds that `--prune-cache` removes."""

from __future__ import annotations

import argparse
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from evaluation.building.cache import Cache
from evaluation.sandbox.sandbox import Level, best_level
from orchestrator.cli.answer import DONE, FAILED, Answer, UsageError
from orchestrator.cli.checks import Check, State
from orchestrator.cli.doctor_fs import check_filesystem
from orchestrator.cli.doctor_model import check_models
from orchestrator.config.experiment import load_tracking
from orchestrator.report.page_format import byte_size
from orchestrator.settings import TrackingSettings

FREE_BYTES_WANTED = 5 * 2**30
CACHE_BYTES_MANY = 5 * 2**30
_PROBE_S = 120.0


def doctor(arguments: argparse.Namespace) -> Answer:
    """Check this machine, a filesystem, or models; exit code 1 when no sweep could run with what there is."""
    if arguments.fs is not None:
        checks = check_filesystem(arguments.fs)
    elif any(word.partition("=")[0].partition(".")[0] == "model" for word in arguments.overrides):
        checks = check_models(arguments.overrides)
    else:
        tracking = load_tracking(arguments.overrides).below(arguments.out)
        out: Path = arguments.out
        prune_to_bytes = None if arguments.prune_cache is None else _bytes(arguments.prune_cache)
        checks = [
            _compiler(),
            _torch(),
            _sandbox(),
            _disk(out),
            _cache(out / "cache", prune_to_bytes),
            _mlflow(tracking),
        ]
    lines = [
        f"{check.state:<8} {check.name:<9} {check.found}{f'; {check.advice}' if check.advice else ''}"
        for check in checks
    ]
    code = FAILED if any(check.state is State.MISSING for check in checks) else DONE
    return Answer(text="\n".join(lines), data=[asdict(check) for check in checks], code=code)


def _compiler() -> Check:
    for command in ("c++", "g++"):
        first_line = _first_line([command, "--version"])
        if first_line is not None:
            return Check(name="compiler", state=State.OK, found=f"{command}: {first_line}")
    advice = "install one (Debian: apt install g++)"
    return Check(name="compiler", state=State.MISSING, found="no C++ compiler, c++ or g++", advice=advice)


def _torch() -> Check:
    program = "import torch; print(torch.__version__, 'CUDA' if torch.cuda.is_available() else 'CPU only')"
    found = _first_line([sys.executable, "-c", program])
    if found is None:
        return Check(
            name="torch",
            state=State.MISSING,
            found="cannot be imported",
            advice=f"{sys.executable} -m pip install torch",
        )
    return Check(name="torch", state=State.OK, found=found)


def _sandbox() -> Check:
    level = best_level()
    found = f"level {int(level)} of {int(max(Level))}: {level.describe()}"
    if level < max(Level):
        advice = "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1) for more"
        return Check(name="sandbox", state=State.WEAK, found=found, advice=advice)
    return Check(name="sandbox", state=State.OK, found=found)


def _disk(out: Path) -> Check:
    folder = out.resolve()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    found = f"{byte_size(free)} free in {folder}"
    if free < FREE_BYTES_WANTED:
        advice = f"make room to {byte_size(FREE_BYTES_WANTED)}, or choose another folder with --out"
        return Check(name="disk", state=State.WEAK, found=found, advice=advice)
    return Check(name="disk", state=State.OK, found=found)


def _cache(folder: Path, prune_to_bytes: int | None) -> Check:
    """The store of native builds; bounded first where that was asked."""
    cache = Cache(folder)
    removed = "" if prune_to_bytes is None else f"{byte_size(cache.prune(prune_to_bytes))} removed; "
    stats = cache.stats()
    asked = stats.hits + stats.misses
    rate = f"{stats.hits / asked:.0%} of {asked:,} requests answered from it" if asked else "nothing asked of it yet"
    found = f"{removed}{byte_size(stats.size_bytes)} in {stats.entries:,} builds of {folder}; {rate}"
    advice = "" if stats.size_bytes < CACHE_BYTES_MANY else "bound it with kernelsweep doctor --prune-cache 5GB"
    return Check(name="builds", state=State.OK, found=found, advice=advice)


def _bytes(text: str) -> int:
    """`5GB`, `500 MB` or a number of bytes. Raises UsageError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *([kMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if found is None:
        raise UsageError(f"--prune-cache {text!r} is no size; give one such as 5GB or 500MB")
    return int(float(found[1]) * 1024 ** " kmgt".index(found[2].lower() or " "))


def _mlflow(tracking: TrackingSettings) -> Check:
    if not tracking.enabled:
        return Check(name="mlflow", state=State.OK, found="off, by tracking.enabled=false")
    try:
        version = metadata.version("mlflow")
    except metadata.PackageNotFoundError:
        advice = f"{sys.executable} -m pip install mlflow, or give tracking=none"
        return Check(name="mlflow", state=State.MISSING, found="not installed", advice=advice)
    problem = _store_problem(tracking.uri)
    found = f"{version}, {tracking.uri}"
    if problem:
        return Check(
            name="mlflow", state=State.WEAK, found=f"{found}: {problem}", advice="records are kept; sync later"
        )
    return Check(name="mlflow", state=State.OK, found=found)


def _store_problem(uri: str) -> str:
    """Why the store cannot be read; nothing when it can, or when the first run will make it."""
    path = Path(uri.removeprefix("sqlite:///"))
    try:
        if uri.startswith(("http://", "https://")):
            with urlopen(f"{uri.rstrip('/')}/health", timeout=5):
                return ""
        if uri.startswith("sqlite:///") and path.exists():
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
                database.execute("select count(*) from experiments").fetchone()
    except (URLError, TimeoutError, sqlite3.Error) as error:
        return str(error)
    return ""


def _first_line(command: list[str]) -> str | None:
    """The first line that a program prints; None when there is no such program or it fails."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.splitlines()[0] if run.stdout else None

"""The other clocks of `timing.py`: CUPTI, ncu and KernelBench's evaluation, each in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from common import ROOT, Json
from timing_cases import ARCH, LIBRARY, Mean8Case
from timing_figures import counted, ncu_durations_us, trace_durations_us

from evaluation.building.toolchain import Toolchain

KERNEL_NAME = "mean8_kernel"
CUPTI_REPEATS, NCU_REPEATS = 100, 15
UNCOUNTED = 11
"""Launches of each size in `timing_profile.py` before those that count: one to check it, ten to warm up."""
LIMIT_S = 120


class Profilers:
    """Runs `timing_profile.py` under each of them. Raises RuntimeError when a process fails, with what it said."""

    def __init__(self, scratch: Path) -> None:
        """Compiles the kernel, as torch would."""
        nvcc = Toolchain.find().nvcc
        if nvcc is None:
            raise RuntimeError("nvcc is not installed, so that the kernel cannot be built for other profilers")
        self._scratch = scratch
        self._library = scratch / "mean8.so"
        source = scratch / "mean8.cu"
        source.write_text(LIBRARY)
        flags = ["-O3", f"-arch=sm_{ARCH}", "-shared", "-Xcompiler", "-fPIC"]
        _run([nvcc, *flags, "-o", str(self._library), str(source)])

    @property
    def library(self) -> Path:
        """The kernel with a launcher that ctypes can call."""
        return self._library

    def cupti(self, cases: Sequence[Mean8Case]) -> list[list[float]]:
        """Kernel durations of each case in microseconds, by torch.profiler."""
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        _run(self._command(cases, CUPTI_REPEATS, str(folder)))
        found = []
        for case in cases:
            trace = json.loads((folder / f"{case.n}-{case.folds}.json").read_text())
            durations_us = trace_durations_us(trace, KERNEL_NAME)
            if len(durations_us) != CUPTI_REPEATS:
                raise RuntimeError(f"CUPTI saw {len(durations_us)} of {CUPTI_REPEATS} launches of {case.name}")
            found.append(durations_us)
        return found

    def ncu(self, cases: Sequence[Mean8Case]) -> list[list[float]]:
        """The same by ncu, which empties all caches before each launch."""
        log = self._scratch / "ncu.csv"
        watch = ["ncu", "--csv", "--log-file", str(log), "--print-units", "base", "--kernel-name", KERNEL_NAME]
        watch += ["--cache-control", "all", "--clock-control", "none", "--metrics", "gpu__time_duration.sum"]
        _run([*watch, *self._command(cases, NCU_REPEATS)])
        found = counted(ncu_durations_us(log.read_text()), UNCOUNTED, NCU_REPEATS)
        if len(found) != len(cases):
            raise RuntimeError(f"ncu saw {len(found)} of {len(cases)} sizes")
        return found

    def _command(self, cases: Sequence[Mean8Case], repeats: int, *folder: str) -> list[str]:
        sizes = ",".join(f"{case.n}:{case.folds}" for case in cases)
        script = str(ROOT / "benchmarks" / "timing_profile.py")
        return [sys.executable, script, str(self._library), sizes, str(repeats), *folder]


class KernelBench:
    """Its evaluation of the same files. One process and one build for all: they differ in their sizes alone."""

    def __init__(self, checkout: Path, scratch: Path) -> None:
        """`checkout` holds its `src`. Raises FileNotFoundError where it does not."""
        if not (checkout / "src" / "kernelbench" / "eval.py").is_file():
            raise FileNotFoundError(f"--kernelbench {checkout} holds no src/kernelbench/eval.py")
        self._checkout = checkout
        self._scratch = scratch
        self._builds = scratch / "kernelbench-builds"
        self._builds.mkdir()
        self._environment = os.environ | {
            "TORCH_CUDA_ARCH_LIST": "9.0",
            "TORCH_EXTENSIONS_DIR": str(self._builds),
            "PYTHONUNBUFFERED": "1",
        }
        self._ahead: subprocess.Popen[bytes] | None = None

    def build_ahead(self, case: Mean8Case) -> None:
        """Begin with torch's build, which takes a minute of no GPU, beside other work; importing the file does it."""
        _, candidate = self._files(case)
        self._ahead = subprocess.Popen(
            ["nice", sys.executable, str(candidate)],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def close(self) -> None:
        """End what has been begun."""
        if self._ahead is not None:
            _end(self._ahead)

    def evaluated(self, cases: Sequence[Mean8Case], limit_s: float) -> Iterator[tuple[str, Json]]:
        """Name and answer of each case, as they come. Raises RuntimeError when they are not all there in `limit_s`."""
        deadline = time.monotonic() + limit_s
        if self._ahead is not None:
            self._ahead.wait(limit_s)
        files = [str(path) for case in cases for path in self._files(case)]
        script = str(ROOT / "benchmarks" / "kernelbench_evaluate.py")
        command = [sys.executable, script, "--build-dir", str(self._builds), str(self._checkout), *files]
        names = iter([case.name for case in cases])
        answered = 0
        with tempfile.TemporaryFile("w+", dir=self._scratch) as errors:
            process = subprocess.Popen(
                command,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
            timer = threading.Timer(deadline - time.monotonic(), os.killpg, (process.pid, signal.SIGKILL))
            timer.start()
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    if line.startswith('{"evaluation_s"'):
                        answered += 1
                        yield next(names), json.loads(line)
            finally:
                timer.cancel()
                _end(process)
            if answered < len(cases):
                errors.seek(0)
                said = errors.read()[-2000:]
                raise RuntimeError(f"KernelBench answered {answered} of {len(cases)} in {limit_s:.0f} s: {said}")

    def _files(self, case: Mean8Case) -> tuple[Path, Path]:
        reference, candidate = (
            self._scratch / f"kernelbench_{case.n}_{case.folds}{suffix}.py" for suffix in ("", "_new")
        )
        reference.write_text(case.problem_source)
        candidate.write_text(case.solution.source)
        return reference, candidate


def _end(process: subprocess.Popen[Any]) -> None:
    """It and the compilers that it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _run(command: Sequence[str]) -> None:
    run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    if run.returncode != 0:
        said = f"{run.stdout[-1500:]}\n{run.stderr[-1500:]}".strip()
        raise RuntimeError(f"{Path(command[0]).name} ended with code {run.returncode}: {said}")

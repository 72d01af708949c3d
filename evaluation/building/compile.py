"""Compiles one request with one set of headers inside a private folder."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from evaluation.building.diagnostics import presentable
from evaluation.building.limits import Compartment, Completed
from evaluation.building.places import Places, Stopped
from evaluation.building.request import RequestError
from evaluation.building.sources import Plan
from evaluation.building.toolchain import LITE_FOLDER, Toolchain, ToolchainError
from evaluation.settings import LimitSettings


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished compile: the object, or what was said against it."""

    library: Path | None
    refusals: tuple[str, ...] = ()
    """Output of every unit that failed, or of the link."""
    final: bool = True
    """Whether the same compile would end in the same way: it was neither out of time nor killed by somebody."""

    @property
    def ok(self) -> bool:
        """Whether there is an object."""
        return self.library is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What all compiles of a builder share: the toolchain, the limits and the places."""

    toolchain: Toolchain
    limits: LimitSettings
    scratch: Path
    places: Places
    """One compiler process each; waiting for one costs a candidate nothing of its time."""

    @contextmanager
    def bench(self, plan: Plan) -> Iterator[Bench]:
        """A private folder with the plan's files; it is gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="build-", dir=self.scratch) as name:
            bench = Bench(self, plan, Path(name))
            bench.write(plan.files)
            yield bench

    def preprocessed(self, source: str, lite: bool) -> str:
        """A C++ source behind its preprocessor, macros included."""
        toolchain = self.toolchain
        include = ["-isystem", str(LITE_FOLDER)] if lite else []
        include += toolchain.include_flags(cuda=True)
        with tempfile.TemporaryDirectory(prefix="build-", dir=self.scratch) as name:
            (Path(name) / "unit.cpp").write_text(source)
            command = [toolchain.cxx, toolchain.standard, *include, "-E", "-dD", "-P", "unit.cpp", "-o", "unit.ii"]
            done = self.run(command, Path(name))
            if not done.ok:
                raise ToolchainError(f"torch's headers cannot be preprocessed: {done.output[:500]}")
            return (Path(name) / "unit.ii").read_text(errors="replace")

    def run(self, command: Sequence[str], folder: Path, stop: threading.Event | None = None) -> Completed:
        """One compiler process, as soon as there is a place for it. Raises Stopped when `stop` was set, ToolchainError
        when it is missing or when the machine ended it for want of memory."""
        stop = stop or threading.Event()
        with self.places.one(stop):
            compartment = Compartment(
                folder=folder,
                readable=self.toolchain.readable(self.scratch),
                memory_bytes=self.limits.memory_bytes,
                deadline=time.monotonic() + self.limits.build_s,
                stop=stop,
            )
            try:
                done = compartment.run(command)
            except FileNotFoundError as error:
                raise ToolchainError(str(error)) from error
        if done.stopped:
            raise Stopped
        if done.killed_by_machine:
            raise ToolchainError(
                f"this machine killed {Path(command[0]).name} while it compiled, most likely for want of memory; "
                "run fewer workers on it, or give it more"
            )
        return done


class Bench:
    """One plan in its private folder."""

    def __init__(self, workshop: Workshop, plan: Plan, folder: Path) -> None:
        self._workshop, self._plan, self.folder = workshop, plan, folder
        self._stop = threading.Event()

    def stop(self) -> None:
        """End what compiles here, from another thread; `compile` then raises Stopped."""
        self._stop.set()

    def write(self, files: Mapping[str, str]) -> None:
        """Put the files into the folder, over those of the same name."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def compile(self) -> Outcome:
        """All units, then the link. Raises RequestError when that would need a torch with CUDA and there is none, and
        Stopped."""
        failed = [one for one in self.compile_units() if not one.ok]
        if failed:
            return self._refused(failed)
        if self._plan.cuda and not self._workshop.toolchain.torch_has_cuda:
            raise RequestError("the sources compile, but the torch of this machine has no CUDA: give C++ sources only")
        linked = self._run(self._plan.link)
        return Outcome(self.folder / self._plan.library) if linked.ok else self._refused([linked])

    def compile_units(self) -> list[Completed]:
        """All units at once, in the plan's order."""
        with ThreadPoolExecutor(max_workers=len(self._plan.units)) as pool:
            return list(pool.map(lambda unit: self._run(unit.command), self._plan.units))

    def _run(self, command: Sequence[str]) -> Completed:
        return self._workshop.run(command, self.folder, self._stop)

    def _refused(self, failed: Sequence[Completed]) -> Outcome:
        slow = next((one for one in failed if one.timed_out), None)
        if slow is not None:
            message = f"the build took longer than the limit of {self._workshop.limits.build_s:g} s and was stopped"
            return Outcome(None, (f"{message}\n{slow.output}",), final=False)
        said = tuple(
            one.output or f"the compiler ended with status {one.returncode} and said nothing" for one in failed
        )
        return Outcome(None, said, final=not any(one.killed for one in failed))

    def present(self, output: str) -> str:
        """The output for the candidate's author."""
        toolchain = self._workshop.toolchain
        hidden = [self.folder, toolchain.torch_folder / "include", toolchain.torch_folder, toolchain.python_include]
        return presentable(output, hidden)

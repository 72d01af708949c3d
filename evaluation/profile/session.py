"""One profile: the candidate by ncu's counters; it and the reference by torch's trace, memory and energy.

All calls get the same inputs and weights, drawn anew, of the kind that is timed. Nothing here is part of a verdict.
Counters need ncu, whose worker has sandbox level 0 (evaluation/profile/target.py): they are absent where the settings
require more. While ncu starts, which is mostly its worker's import of torch, the rest is measured; the next profile's
is started ahead. The reference's figures are measured once for all profiles of a problem.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from evaluation.correctness.oracle import Oracle
from evaluation.correctness.trials import new_seed
from evaluation.device.nvml import Device, DeviceStateAbsent
from evaluation.environment import gpu_uuid
from evaluation.errors import CandidateFault
from evaluation.profile import ncu
from evaluation.profile.arm import ProfileArm
from evaluation.profile.brief import without
from evaluation.profile.counted import Counting
from evaluation.profile.energy import PowerMeter
from evaluation.profile.summary import Peaks, summarise
from evaluation.profile.tools import Tools
from evaluation.sandbox.sandbox import Level
from evaluation.settings import EvaluationSettings
from evaluation.timing import lane
from evaluation.verdict import Profile, ProfiledKernel, Solution
from evaluation.worker.handle import Worker
from evaluation.worker.setup import Setup
from problems.inputs import LoadedProblem
from problems.problem import Problem, ProblemError

ENERGY_LOOP_S = 0.6
_SETTLED_S = 0.1
"""Of it, until the board draws what it draws."""
COUNTED_LIMIT_S = 120.0
_COUNTED_BLOCKS = ("sol", "roofline", "stalls")
_FIGURES = ("launches", "peak_bytes", "energy_mj")
"""Of reference and candidate alike."""


def absent_on_cpu() -> Profile:
    """Of a candidate that was judged on a CPU."""
    return without("judged on a CPU: this takes a GPU")


def profile_on_device(tools: Tools, problem: Problem, solution: Solution, peaks: Peaks | None) -> Profile:
    """The profile of a right candidate on the first CUDA device. What cannot be had is absent, with its reason.

    Raises EvaluatorError for faults of ours, ProblemError if the problem cannot be drawn.
    """
    session = _Session(tools, _Case.drawn(problem, solution, tools.settings))
    with ExitStack() as held:
        counting, refused = None, ""
        try:
            counting = tools.ready.take()
            held.callback(counting.close)
            # The next profile's: by its turn it is ready.
            tools.ready.refill()
        except ncu.NcuError as error:
            refused = str(error)
        session.measure()
        if counting is not None:
            try:
                profile = session.with_counters(summarise(session.counted(counting), peaks))
            except (ncu.NcuError, CandidateFault, ValueError) as error:
                refused = str(error)
    if refused:
        profile = session.without_counters(refused)
    return replace(profile, wall_s=session.wall_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """What every worker is given."""

    problem: Problem
    candidate: Solution
    setup: Setup
    inputs: list[Any]

    @classmethod
    def drawn(cls, problem: Problem, solution: Solution, settings: EvaluationSettings) -> _Case:
        loaded, seed = LoadedProblem(problem, "cuda"), new_seed()
        oracle = Oracle(loaded, seed, settings.precision)
        setup = Setup.of(loaded, oracle, seed, settings.precision)
        inputs = oracle.at_precision(loaded.calls(new_seed(), 1)[0])
        return cls(problem=problem, candidate=solution, setup=setup, inputs=inputs)


@dataclass(slots=True)
class _Session:
    tools: Tools
    case: _Case
    metrics: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    wall_s: dict[str, float] = field(default_factory=dict)

    def measure(self) -> None:
        """Memory and energy of both, and the reference's launches."""
        known = self.tools.reference_of(self.case.problem)
        self.metrics |= known
        if not known:
            with self._told("reference"), self._arm("reference") as arm, _device():
                self._peak_and_energy("reference", arm)
                self._reference_launches(arm)
            names = [f"reference_{figure}" for figure in _FIGURES]
            if all(name in self.metrics for name in names):
                self.tools.keep_reference(self.case.problem, {name: self.metrics[name] for name in names})
        with self._told("kernel"), self._arm("kernel") as arm, _device():
            self._peak_and_energy("kernel", arm)

    def counted(self, counting: Counting) -> list[ncu.Kernel]:
        """The candidate's kernels by ncu. Raises NcuError or CandidateFault where there are none."""
        with self._clocked("ncu's start"):
            worker = counting.worker()
        arm = self._new_arm("kernel", worker)
        arm.load(self.case.candidate.source, self.case.candidate.entry_point)
        arm.construct(self.case.setup)
        with _device(), self._clocked("counters"):
            arm.counted(self.case.inputs, COUNTED_LIMIT_S)
            return counting.kernels(worker)

    def with_counters(self, profile: Profile) -> Profile:
        """Everything. Launches and their durations are ncu's."""
        self.metrics |= profile.metrics
        words = profile.words | {
            "counters": "ncu, caches emptied before each pass, clocks as they are",
            "counters_sandbox": Level.PROCESS.describe(),
        }
        return replace(profile, metrics=self._compared(), absent=self._absent(profile.absent), words=words)

    def without_counters(self, reason: str) -> Profile:
        """What there is: launches and durations by torch's trace."""
        kernels: list[ProfiledKernel] = []
        words = {}
        with self._told("kernel"), self._arm("kernel") as arm, _device():
            kernels = [ProfiledKernel(name=name, device_time_us=us) for name, us in self._traced("kernel", arm)]
        if kernels:
            self.metrics["device_time_us"] = sum(kernel.device_time_us for kernel in kernels)
            words["counters"] = "none; launches and durations by torch's profiler (CUPTI), caches warm"
        absent = self._absent(dict.fromkeys(_COUNTED_BLOCKS, reason))
        return Profile(metrics=self._compared(), absent=absent, words=words, kernels=kernels)

    def _compared(self) -> dict[str, float]:
        launches = [self.metrics.get(f"{who}_launches") for who in ("reference", "kernel")]
        if launches[0] is not None and launches[1]:
            self.metrics["fusion_ratio"] = launches[0] / launches[1]
        return self.metrics

    def _absent(self, more: dict[str, str]) -> dict[str, str]:
        return {key: why for key, why in (self.absent | more).items() if key not in self.metrics}

    @contextmanager
    def _told(self, who: str) -> Iterator[None]:
        """What fails in here leaves its figures absent."""
        try:
            yield
        except (CandidateFault, ProblemError) as error:
            why = f"it failed when it was profiled: {error}"[:300]
            self.absent |= {f"{who}_{figure}": why for figure in _FIGURES}

    def _reference_launches(self, arm: ProfileArm) -> None:
        with self._clocked("reference's launches"):
            captured = arm.launches(self.case.inputs)
        if captured is None:
            self._traced("reference", arm)
        elif captured:
            self.metrics["reference_launches"] = float(captured)
        else:
            self.absent["reference_launches"] = "its forward runs no kernel"

    def _traced(self, who: str, arm: ProfileArm) -> list[tuple[str, float]]:
        with self._clocked(f"{who}'s trace"):
            kernels = arm.kernels(self.case.inputs)
        if kernels:
            self.metrics[f"{who}_launches"] = float(len(kernels))
        else:
            self.absent[f"{who}_launches"] = "torch's profiler saw no kernel in the forward"
        return kernels

    def _peak_and_energy(self, who: str, arm: ProfileArm) -> None:
        with self._clocked(f"{who}'s memory"):
            self.metrics[f"{who}_peak_bytes"] = float(arm.peak_bytes(self.case.inputs))
        try:
            with self._clocked(f"{who}'s energy"), Device(gpu_uuid()) as device:
                self._measure_energy(who, arm, device)
        except DeviceStateAbsent as error:
            self.absent[f"{who}_energy_mj"] = str(error)

    def _measure_energy(self, who: str, arm: ProfileArm, device: Device) -> None:
        """Of the whole board while calls follow each other, what it draws when idle included, per call."""
        if device.total_energy_mj() is None:
            self.absent[f"{who}_energy_mj"] = "the driver does not count this device's energy"
            return
        with PowerMeter(device) as meter:
            per_call_s = arm.looped(self.case.inputs, ENERGY_LOOP_S)
            ended = time.monotonic()
        power_mw = meter.power_mw(ended - ENERGY_LOOP_S + _SETTLED_S, ended)
        if power_mw is None:
            self.absent[f"{who}_energy_mj"] = "the device's energy counter hardly moved"
        else:
            self.metrics[f"{who}_energy_mj"] = power_mw * per_call_s

    @contextmanager
    def _clocked(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.wall_s[name] = round(time.monotonic() - started, 4)

    @contextmanager
    def _arm(self, who: str) -> Iterator[ProfileArm]:
        reference = Solution(source=self.case.problem.source, entry_point="Model")
        solution = self.case.candidate if who == "kernel" else reference
        with self._clocked(f"{who}'s start"):
            arm = self._new_arm(who, self.tools.worker())
        with closing(arm):
            with self._clocked(f"{who}'s import"):
                arm.load(solution.source, solution.entry_point)
                arm.construct(self.case.setup)
            yield arm

    def _new_arm(self, who: str, worker: Worker) -> ProfileArm:
        limits, build = self.tools.settings.limits, self.tools.builder.build
        return ProfileArm(worker, limits, build, is_reference=who == "reference", first_call_s=limits.load_s)


@contextmanager
def _device() -> Iterator[None]:
    """Held for work on the device alone, never while something is built."""
    with lane.device_held(gpu_uuid()):
        yield

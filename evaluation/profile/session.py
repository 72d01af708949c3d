"""One profile: the candidate by ncu's counters; it and the reference by torch's trace, memory and energy.

All calls get the same inputs and weights, drawn anew, of the kind that is timed. Nothing here is part of a verdict.
Counters need ncu, whose worker has sandbox level 0 (evaluation/profile/target.py): they are absent where the settings
require more. While ncu starts, which is mostly its worker's import of torch, the rest is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evaluation.building.builder import Builder
from evaluation.correctness.oracle import Oracle
from evaluation.correctness.trials import new_seed
from evaluation.device import harness
from evaluation.device.nvml import Device, DeviceStateAbsent
from evaluation.environment import gpu_uuid
from evaluation.errors import CandidateFault
from evaluation.profile import ncu
from evaluation.profile.arm import ProfileArm
from evaluation.profile.counted import Counting
from evaluation.profile.summary import Peaks, summarise
from evaluation.sandbox.sandbox import Level
from evaluation.settings import EvaluationSettings
from evaluation.timing import lane
from evaluation.verdict import Profile, ProfiledKernel, Solution
from evaluation.worker.handle import Worker, Zygote
from evaluation.worker.setup import Setup
from problems.inputs import LoadedProblem
from problems.problem import Problem, ProblemError

ENERGY_LOOP_S = 1.0
"""NVML's counter of energy moves every 20 to 100 ms."""
COUNTED_LIMIT_S = 120.0
_COUNTED_BLOCKS = ("sol", "roofline", "stalls")
_ABSENT_ON_CPU = "judged on a CPU: this takes a GPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a profile needs of the judge."""

    settings: EvaluationSettings
    zygote: Zygote
    builder: Builder
    cache_dir: Path


def absent_on_cpu() -> Profile:
    """Of a candidate that was judged on a CPU."""
    return Profile(absent=dict.fromkeys(("memory", "launches", *_COUNTED_BLOCKS, "energy"), _ABSENT_ON_CPU))


def profile_on_device(tools: Tools, problem: Problem, solution: Solution, peaks: Peaks | None) -> Profile:
    """The profile of a right candidate on the first CUDA device. What cannot be had is absent, with its reason.

    Raises EvaluatorError for faults of ours, ProblemError if the problem cannot be drawn.
    """
    case = _Case.drawn(problem, solution, tools.settings)
    with ExitStack() as held:
        counting: Counting | None = None
        refused = ""
        try:
            counting = _started(tools, held)
        except ncu.NcuError as error:
            refused = str(error)
        session = _Session(tools, case)
        session.beside_counters()
        if counting is not None:
            try:
                return session.with_counters(summarise(session.counted(counting), peaks))
            except (ncu.NcuError, CandidateFault, ValueError) as error:
                refused = str(error)
        return session.without_counters(refused)


def _started(tools: Tools, held: ExitStack) -> Counting:
    settings = tools.settings
    if settings.require_sandbox > Level.PROCESS:
        raise ncu.NcuError(f"evaluation.require_sandbox={settings.require_sandbox}, and ncu needs sandbox level 0")
    library = harness.build(tools.cache_dir)
    return Counting(ncu.find(), library, settings.limits, settings.cpu_threads, held)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """What every worker is given."""

    candidate: Solution
    reference: Solution
    setup: Setup
    inputs: list[Any]

    @classmethod
    def drawn(cls, problem: Problem, solution: Solution, settings: EvaluationSettings) -> _Case:
        loaded, seed = LoadedProblem(problem), new_seed()
        oracle = Oracle(loaded, seed, settings.precision)
        setup = Setup.of(loaded, oracle, seed, settings.precision)
        reference = Solution(source=problem.source, entry_point="Model")
        inputs = oracle.at_precision(loaded.calls(new_seed(), 1)[0])
        return cls(candidate=solution, reference=reference, setup=setup, inputs=inputs)


@dataclass(slots=True)
class _Session:
    tools: Tools
    case: _Case
    metrics: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    traced: list[tuple[str, float]] = field(default_factory=list)

    def beside_counters(self) -> None:
        """Launches, memory and energy of both."""
        for who in ("reference", "kernel"):
            try:
                with self._arm(who, self.tools.zygote.spawn(self.tools.settings.limits)) as arm, _device():
                    self._measure(who, arm)
            except (CandidateFault, ProblemError) as error:
                for figure in ("launches", "peak_bytes", "energy_mj"):
                    if f"{who}_{figure}" not in self.metrics:
                        self.absent.setdefault(f"{who}_{figure}", f"it failed when it was profiled: {error}"[:300])
        launches = [self.metrics.get(f"{who}_launches") for who in ("reference", "kernel")]
        if launches[0] is not None and launches[1]:
            self.metrics["fusion_ratio"] = launches[0] / launches[1]

    def counted(self, counting: Counting) -> list[ncu.Kernel]:
        """The candidate's kernels by ncu. Raises NcuError or CandidateFault where there are none."""
        worker = counting.worker()
        arm = self._new_arm("kernel", worker)
        arm.load(self.case.candidate.source, self.case.candidate.entry_point)
        arm.construct(self.case.setup)
        with _device():
            arm.counted(self.case.inputs, COUNTED_LIMIT_S)
            return counting.kernels(worker)

    def with_counters(self, profile: Profile) -> Profile:
        """Everything. Launches and their durations are ncu's."""
        metrics = self.metrics | profile.metrics
        if self.metrics.get("reference_launches"):
            metrics["fusion_ratio"] = self.metrics["reference_launches"] / profile.metrics["kernel_launches"]
        words = profile.words | {
            "counters": "ncu, caches emptied before each pass, clocks as they are",
            "counters_sandbox": Level.PROCESS.describe(),
        }
        absent = {key: why for key, why in (self.absent | profile.absent).items() if key not in metrics}
        return replace(profile, metrics=metrics, absent=absent, words=words)

    def without_counters(self, reason: str) -> Profile:
        """What there is: launches and durations by torch's trace."""
        absent = self.absent | dict.fromkeys(_COUNTED_BLOCKS, reason)
        words = {}
        if self.traced:
            self.metrics["device_time_us"] = sum(us for _, us in self.traced)
            words["counters"] = "none; launches and durations by torch's profiler (CUPTI), caches warm"
        kernels = [ProfiledKernel(name=name, device_time_us=us) for name, us in self.traced]
        return Profile(metrics=self.metrics, absent=absent, words=words, kernels=kernels)

    def _measure(self, who: str, arm: ProfileArm) -> None:
        inputs = self.case.inputs
        self.metrics[f"{who}_peak_bytes"] = float(arm.peak_bytes(inputs))
        kernels = arm.kernels(inputs)
        if who == "kernel":
            self.traced = kernels
        if kernels:
            self.metrics[f"{who}_launches"] = float(len(kernels))
        else:
            self.absent[f"{who}_launches"] = "torch's profiler saw no kernel in the forward"
        try:
            with Device(gpu_uuid()) as device:
                self._measure_energy(who, arm, device)
        except DeviceStateAbsent as error:
            self.absent[f"{who}_energy_mj"] = str(error)

    def _measure_energy(self, who: str, arm: ProfileArm, device: Device) -> None:
        """Of the whole board while calls follow each other, what it draws when idle included, per call."""
        before = device.total_energy_mj()
        calls = arm.calls_in(self.case.inputs, ENERGY_LOOP_S)
        after = device.total_energy_mj()
        if before is None or after is None:
            self.absent[f"{who}_energy_mj"] = "the driver does not count this device's energy"
        elif after <= before:
            self.absent[f"{who}_energy_mj"] = "the device's energy counter did not move"
        else:
            self.metrics[f"{who}_energy_mj"] = (after - before) / calls

    @contextmanager
    def _arm(self, who: str, worker: Worker) -> Iterator[ProfileArm]:
        solution = self.case.candidate if who == "kernel" else self.case.reference
        with closing(self._new_arm(who, worker)) as arm:
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

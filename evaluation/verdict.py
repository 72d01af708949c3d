"""The nouns of a verdict. Plain data: importing this loads neither torch nor numpy."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Status(StrEnum):
    """What the judge found. All but INVALID_PROBLEM are the candidate's; faults of ours are exceptions."""

    PASSED = "PASSED"
    COMPILE_ERROR = "COMPILE_ERROR"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    TIMEOUT = "TIMEOUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    INCORRECT_STRUCTURE = "INCORRECT_STRUCTURE"
    INCORRECT_VALUES = "INCORRECT_VALUES"
    TAMPERING = "TAMPERING"
    UNSTABLE_TIMING = "UNSTABLE_TIMING"
    INVALID_PROBLEM = "INVALID_PROBLEM"

    @property
    def correct(self) -> bool:
        """Whether the values were right; UNSTABLE_TIMING says only that the clock could not settle."""
        return self in (Status.PASSED, Status.UNSTABLE_TIMING)


class Fault(StrEnum):
    """How a candidate ended when it did not end by itself with a wrong or right answer."""

    EXCEPTION = "EXCEPTION"
    EXITED = "EXITED"
    KILLED_BY_SIGNAL = "KILLED_BY_SIGNAL"
    WALL_LIMIT = "WALL_LIMIT"
    MEMORY_LIMIT = "MEMORY_LIMIT"
    PROCESS_LIMIT = "PROCESS_LIMIT"
    OUTPUT_LIMIT = "OUTPUT_LIMIT"
    PROTOCOL = "PROTOCOL"


class Stage(StrEnum):
    """How far an evaluation goes; each stage includes the ones before it."""

    BUILD = "build"
    CORRECTNESS = "correctness"
    TIMING = "timing"
    PROFILE = "profile"
    """Of a candidate that is right, on a device; elsewhere it is the same as TIMING."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """A candidate: one Python module that defines `entry_point`, a drop-in for the problem's `Model`."""

    source: str
    language: str = "cpp"
    entry_point: str = "ModelNew"


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One native object that the candidate asked for through load_inline or load."""

    name: str
    tier: str
    """`lite`, `slim` or `stock`: which headers built it."""
    cached: bool
    wall_s: float
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One set of inputs and what came of it. Written afterwards, so that a run can be repeated."""

    seed: int
    value_set: str
    dims: dict[str, int]
    passed: bool
    max_abs_error: float
    max_rel_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Correctness:
    """Agreement with the float64 oracle over all draws. Errors are over all elements of all outputs."""

    draws: list[Draw]
    draws_total: int
    max_abs_error: float
    mean_abs_error: float
    max_rel_error: float
    mean_rel_error: float
    reference_rms_error: float
    """rms of (reference at the problem's precision - oracle): the yardstick of the tolerance."""
    candidate_rms_error: float
    tolerance: str
    """The rule that was applied, in words and numbers."""
    kernelbench_passed: bool | None
    """What KernelBench's check would say, for comparison (`evaluation/correctness/kernelbench.py`), on the draws of the
    problem's first value set. None where it says nothing: at fp64 and tf32, or if no such draw was answered."""
    weights_rule: str
    """How the candidate got its weights. `loaded`: all by name. `ordered`: all, by the order of their shapes. `partly`:
    those that its constructor cannot draw by name or shape, the others from its constructor under the reference's seed.
    `seeded`: all from its constructor."""

    @property
    def draws_passed(self) -> int:
        """How many draws agreed."""
        return sum(draw.passed for draw in self.draws)


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Latency of one arm, per call. The interval holds the median in 95 % of cases.

    It is made of order statistics, widened where neighbouring blocks are alike.
    """

    median_us: float
    low_us: float
    high_us: float
    mean_us: float
    std_us: float
    samples_us: list[float]
    """One entry per block: mean over the block's calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The state of a GPU at one moment, as its driver tells it. A figure is None where the driver does not."""

    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    max_sm_clock_mhz: int | None = None
    power_w: float | None = None
    """On recent GPUs (Ampere but A100, and later) the mean over the second before."""
    power_limit_w: float | None = None
    """What the driver enforces, from whatever side the limit comes."""
    temperature_c: int | None = None
    throttle_reasons: list[str] | None = None
    """Why clocks are not at their highest, by NVML's names; being idle is left out. Empty: they are not held down."""
    foreign_processes: list[int] | None = None
    """Pids of compute processes on the GPU that are not the evaluator's. None where the driver's pids are not those of
    this process's namespace, or where none are seen but some may be hidden."""
    utilisation_percent: int | None = None
    """Share of the driver's last sample period (1/6 to 1 s) in which a kernel ran, the evaluator's own included."""
    memory_used_bytes: int | None = None
    """Of the whole GPU, without what the driver reserves."""


LAUNCH_BOUND_US = 10.0
"""A reference that is faster than this on a device measures launches more than kernels."""
LAUNCH_BOUND = "launch-bound: a call is so short that the speed-up says little about the kernel"
WAITS = "the call waits for the device, so that at the lower end of the speed-up its end-to-end time counts"
"""What a timing without `attested_us` means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndToEnd:
    """From the call until the device is idle, for calls on a device, where the latency is that of the device."""

    candidate: Latency
    reference: Latency
    speedup: float
    speedup_low: float
    speedup_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Candidate against reference, in alternating blocks on the same inputs. Only correct candidates have one."""

    candidate: Latency
    reference: Latency
    speedup: float
    speedup_low: float
    speedup_high: float
    calls_per_block: int
    process_pairs: int
    """Pairs of fresh processes that the blocks come from, in equal shares and in this order."""
    clock: str
    """What was measured by which clock, in words."""
    wall_s: float
    harness_us: float | None = None
    """Per call, spent in the worker beside the call itself; None in records of evaluators that did not tell. The lower
    end of the interval allows for a candidate that has replaced the worker's own code, and saved all of it."""
    end_to_end: EndToEnd | None = None
    """None on the CPU, where it is the same."""
    attested_us: float | None = None
    """On a device: what the candidate takes by the judge's clock alone, the lower end of the median's 95 % interval.
    The lower end of the speed-up's interval holds it. None for a candidate that waits for the device within its call;
    then the end-to-end latency takes its place."""
    baseline: str = "eager"
    """What the reference's arm ran: the module as it stands, or `compile` for torch.compile of it."""
    conditions: list[Conditions] = field(default_factory=list)
    """Of the device, before and after; empty on the CPU and where its driver does not tell them."""

    @property
    def compiled(self) -> bool:
        """Whether the reference's arm ran `torch.compile` of the reference."""
        return self.baseline == "compile"

    @property
    def launch_bound(self) -> bool:
        """Whether the speed-up says little about a kernel."""
        return self.end_to_end is not None and self.reference.median_us < LAUNCH_BOUND_US

    @property
    def faster(self) -> bool:
        """Claimed only when the whole interval lies above 1."""
        return self.speedup_low > 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledKernel:
    """One launch, by ncu's counters; by the trace alone where these are refused, and then without the rest."""

    name: str
    device_time_us: float
    dram_bytes: float | None = None
    dram_percent: float | None = None
    compute_percent: float | None = None
    flops: float | None = None
    """Floating-point operations; None where not all kinds of them were counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Figures beside time. A figure that could not be had is missing here and named in `absent` with the reason."""

    metrics: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    """Figures that are no number: bottleneck, dominant_pipe, occupancy_limiter, and how they were measured."""
    kernels: list[ProfiledKernel] = field(default_factory=list)
    """Of the candidate's forward, in the order of launches."""
    wall_s: dict[str, float] = field(default_factory=dict)
    """What its parts took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Where the verdict was made."""

    device: str
    device_name: str
    threads: int
    torch: str
    python: str
    compiler: str
    platform: str
    sandbox_level: int
    sandbox: str
    driver: str = ""
    """Version of the GPU's driver; this and the following are empty on the CPU, and where they are not known."""
    cuda: str = ""
    """The CUDA that torch was built for."""
    nvcc: str = ""
    """What the CUDA compiler says of its release."""
    host: str = ""
    """Name of the CPU beside the GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The verdict on one solution. Parts that were not reached are None; a status that says otherwise cannot be built.

    Raises ValueError when a Timing stands beside a status that is not correct.
    """

    status: Status
    stage: Stage
    """How far the evaluation went."""
    message: str = ""
    """What a person, or the model, needs to mend it; bounded, and free of input values."""
    fault: Fault | None = None
    tags: list[str] = field(default_factory=list)
    """Static findings about the source: advice, never a verdict."""
    builds: list[Build] = field(default_factory=list)
    correctness: Correctness | None = None
    timing: Timing | None = None
    profile: Profile | None = None
    environment: Environment | None = None
    problem: str = ""
    solution_sha256: str = ""
    wall_s: dict[str, float] = field(default_factory=dict)
    """Seconds per stage: queue, build, load, correctness, timing."""
    log: str = ""
    """The tail of what the candidate printed; for the operator, untrusted."""

    def __post_init__(self) -> None:
        if self.timing is not None and not self.status.correct:
            raise ValueError(f"an evaluation with status {self.status} cannot carry a timing")
        if self.status is Status.UNSTABLE_TIMING and self.timing is None:
            raise ValueError("UNSTABLE_TIMING needs the timing that did not settle")

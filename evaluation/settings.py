"""How a candidate is judged. Fields that change the verdict or the times, all but `profile`, are in a cell's identity.

A field's metadata may name its `choices` or its `minimum`; the config holds them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, kw_only=True)
class TimingSettings:
    """When the clock stops. Time is spent until the interval is tight enough or the budget is gone."""

    budget_s: float = 1.5
    """Seconds of measuring per evaluation, both arms together; on a device with all that is done between calls."""
    process_pairs: int = field(default=4, metadata={"minimum": 1})
    """Fresh processes of each arm that share the budget: the same code in two processes differs by a percent or two."""
    min_blocks: int = 16
    """Paired blocks (reference, candidate) measured at least, all processes together."""
    target_interval: float = 0.05
    """Half-width of the 95 % interval of the speed-up, relative to it, at which measuring stops early."""
    stable_interval: float = 0.15
    """Half-width above which the result is marked UNSTABLE_TIMING; on a device that of two processes comes on top."""
    baseline: str = field(default="eager", metadata={"choices": ("eager", "compile")})
    """What the candidate is timed against: the reference as it stands, or `torch.compile` of it."""


TIMING_ON: dict[str, dict[str, Any]] = {
    "cpu": {},
    "cuda": {"budget_s": 0.8, "process_pairs": 2, "min_blocks": 12, "stable_interval": 0.1},
}
"""Where a device differs from the defaults: on CUDA two processes differ less, and a fresh one costs more."""
PROFILE_ON = {"cpu": "never", "cuda": "final"}


@dataclass(slots=True, kw_only=True)
class LimitSettings:
    """Bounds on one candidate; passing one ends it with a status of its own and touches nobody else."""

    build_s: float = 180.0
    """Seconds for one native build."""
    load_s: float = 60.0
    """Seconds to import the candidate and construct ModelNew, builds not counted."""
    call_s: float = 30.0
    """Seconds for one lock-step ticket."""
    memory_bytes: int = 8 * 2**30
    """Resident memory of the candidate's whole process tree."""
    processes: int = 64
    """Processes and threads-with-own-pid that the candidate's tree may hold."""
    output_bytes: int = 16 * 2**20
    """Bytes that the candidate may print to stdout and stderr together."""


@dataclass(slots=True, kw_only=True)
class EvaluationSettings:
    """Everything the judge needs to know beside the problem and the candidate."""

    device: str = field(default="cpu", metadata={"choices": ("cpu", "cuda")})
    """Where calls are made: `cpu`, or the first CUDA device that the process sees (CUDA_VISIBLE_DEVICES)."""
    shapes: str = field(default="fixed", metadata={"choices": ("fixed", "jitter")})
    """`fixed`: the sizes that the problem file states. `jitter`: every draw has its own in the free dimensions."""
    draws: int = field(default=5, metadata={"minimum": 1})
    """Independent input draws that must all be right; more where the problem's value sets and their directions, each of
    which gets one, are more."""
    precision: str = field(default="fp32", metadata={"choices": ("fp64", "fp32", "tf32", "fp16", "bf16")})
    """Precision asked of the candidate: fp64, fp32, tf32 (fp32 storage, TF32 permitted), fp16 or bf16."""
    cpu_threads: int = field(default=1, metadata={"minimum": 1})
    """Cores that each arm may use when device=cpu; both arms are pinned to the same ones."""
    require_sandbox: int = 0
    """Refuse to judge on a machine whose sandbox level is lower than this."""
    profile: str = field(default="never", metadata={"identity": False, "choices": ("final", "never")})
    """Whether a cell's kernel is profiled when it is graded (`final`). It changes no result."""
    timing: TimingSettings = field(default_factory=TimingSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)

    @classmethod
    def on(cls, device: str, **changes: Any) -> EvaluationSettings:
        """What conf/evaluation declares for a device, with changes by field."""
        declared: dict[str, Any] = {"timing": TimingSettings(**TIMING_ON[device]), "profile": PROFILE_ON[device]}
        return cls(device=device, **(declared | changes))

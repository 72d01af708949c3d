"""Where calls are made: on cores of the CPU, or on a CUDA device. What the judge does is the same on both."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Protocol

import torch

from evaluation.building.request import BuildReply, BuildRequest
from evaluation.device.nvml import Device, DeviceStateAbsent
from evaluation.environment import gpu_uuid
from evaluation.errors import EvaluatorError, JudgeLost
from evaluation.settings import EvaluationSettings
from evaluation.timing import lane
from evaluation.timing.clock import time_arms
from evaluation.timing.device_clock import time_on_device
from evaluation.timing.pair import Batch, Check
from evaluation.verdict import Conditions, Timing
from evaluation.worker import processes
from evaluation.worker.arm import WorkerArm
from evaluation.worker.device_arm import DeviceArm
from evaluation.worker.handle import Worker, Zygote
from evaluation.worker.pool import Pool
from evaluation.worker.ticket import Ticket

_PROBE_SIZE = 256
_HOARD = 0.5
"""A candidate beside which the evaluator has too little memory is to blame when it held this share of the device's."""
_PLENTY = 0.75
"""Share of the device's memory that is free where it need not be saved."""
_GIVEN_BACK_S = 2.0
"""Until what a process held is free again after its end."""

Build = Callable[[BuildRequest], BuildReply]
OpenPair = Callable[[], AbstractContextManager[tuple[Any, Any]]]


class Workplace(Protocol):
    """Arms, the right to use what they run on, and the clock for it."""

    device: str

    def worker(self) -> Worker:
        """A fresh one."""
        ...

    def arm(self, build: Build, *, is_reference: bool) -> WorkerArm:
        """One with a fresh worker."""
        ...

    def ticket(self, inputs: list[Any]) -> Ticket:
        """One call's inputs."""
        ...

    def held_for_calls(self) -> AbstractContextManager[None]:
        """The right to make calls whose time does not count."""
        ...

    def held_for_timing(self) -> AbstractContextManager[Callable[[WorkerArm], None]]:
        """The right to measure; gives what prepares an arm for that."""
        ...

    def time(self, open_pair: OpenPair, next_batch: Callable[[int], Batch], check: Check) -> tuple[Timing, bool]:
        """Time both arms; the flag says whether the result is stable."""
        ...

    def retire(self, arm: WorkerArm) -> None:
        """End an arm that has done its part; at the latest `between` waits until it is gone."""
        ...

    def hoarded(self, end: Callable[[], None]) -> bool:
        """Call `end`, which ends a candidate that others fail beside; whether it had taken what they needed."""
        ...

    def between(self) -> None:
        """After each evaluation. Raises EvaluatorError when the device is not what it was."""
        ...

    def close(self) -> None:
        """End what is ready."""
        ...


def workplace(settings: EvaluationSettings, zygote: Zygote) -> Workplace:
    """The one that the settings ask for. Raises EvaluatorError when this machine has it not."""
    return OnDevice(settings, zygote) if settings.device == "cuda" else OnCores(settings, zygote)


class OnCores:
    """Calls on the CPU: arms are pinned to the same cores while they are timed."""

    device = "cpu"

    def __init__(self, settings: EvaluationSettings, zygote: Zygote) -> None:
        self._settings = settings
        self._zygote = zygote
        lane.core_sets(settings.cpu_threads)

    def worker(self) -> Worker:
        """See Workplace."""
        return self._zygote.spawn(self._settings.limits)

    def arm(self, build: Build, *, is_reference: bool) -> WorkerArm:
        """See Workplace."""
        return WorkerArm(self.worker(), self._settings.limits, build, is_reference)

    def ticket(self, inputs: list[Any]) -> Ticket:
        """See Workplace."""
        return Ticket.of(inputs)

    def held_for_calls(self) -> AbstractContextManager[None]:
        """See Workplace: others may compute meanwhile."""
        return nullcontext()

    @contextmanager
    def held_for_timing(self) -> Iterator[Callable[[WorkerArm], None]]:
        """See Workplace."""
        with lane.held(self._settings.cpu_threads) as cores:
            yield lambda arm: arm.worker.prepare_for_timing(cores)

    def time(self, open_pair: OpenPair, next_batch: Callable[[int], Batch], check: Check) -> tuple[Timing, bool]:
        """See Workplace."""
        return time_arms(open_pair, next_batch, check, self._settings.timing)

    def retire(self, arm: WorkerArm) -> None:
        """See Workplace: at once, as what ends takes time of the cores."""
        arm.close()

    def hoarded(self, end: Callable[[], None]) -> bool:
        """See Workplace: memory of the host is limited for each candidate."""
        end()
        return False

    def between(self) -> None:
        """See Workplace: nothing is kept."""

    def close(self) -> None:
        """See Workplace."""


def _as_it_is(_arm: WorkerArm) -> None:
    """A worker on a device needs no preparation: gates hide what its host does."""


class OnDevice:
    """Calls on the first CUDA device that this process sees, one judge at a time."""

    device = "cuda"

    def __init__(self, settings: EvaluationSettings, zygote: Zygote) -> None:
        if not torch.cuda.is_available():
            raise EvaluatorError(
                f"evaluation.device=cuda but torch {torch.__version__} sees no CUDA device on this machine; look at "
                "nvidia-smi and CUDA_VISIBLE_DEVICES, or set evaluation.device=cpu"
            )
        self._settings = settings
        self._zygote = zygote
        self._retired: list[WorkerArm] = []
        self._pool = Pool(zygote, settings.limits)
        self._refill()
        self._uuid = gpu_uuid()
        try:
            self._state: Device | None = Device(self._uuid)
        except DeviceStateAbsent:
            self._state = None
        generator = torch.Generator("cuda").manual_seed(0)
        self._probe = torch.randn(_PROBE_SIZE, _PROBE_SIZE, device="cuda", dtype=torch.float64, generator=generator)
        self._known = self._probed()

    def worker(self) -> Worker:
        """See Workplace."""
        return self._pool.take()

    def arm(self, build: Build, *, is_reference: bool) -> WorkerArm:
        """See Workplace."""
        limits = self._settings.limits
        # On a device a first call may still compile something.
        return DeviceArm(self.worker(), limits, build, is_reference, first_call_s=limits.load_s)

    def ticket(self, inputs: list[Any]) -> Ticket:
        """See Workplace."""
        return Ticket.of(inputs, self.device)

    @contextmanager
    def held_for_calls(self) -> Iterator[None]:
        """See Workplace: work of others on the device would make deadlines pass."""
        with lane.device_held(self._uuid):
            yield

    @contextmanager
    def held_for_timing(self) -> Iterator[Callable[[WorkerArm], None]]:
        """See Workplace."""
        self._pool.settle(2 * self._settings.timing.process_pairs)
        with lane.device_held(self._uuid):
            yield _as_it_is

    def time(self, open_pair: OpenPair, next_batch: Callable[[int], Batch], check: Check) -> tuple[Timing, bool]:
        """See Workplace."""
        before = self._conditions()
        timing, stable = time_on_device(open_pair, next_batch, check, self._settings.timing)
        return replace(timing, conditions=before + self._conditions()), stable

    def retire(self, arm: WorkerArm) -> None:
        """See Workplace: giving a context up takes a tenth of a second, which nobody waits for who needs no memory."""
        free_bytes, total_bytes = torch.cuda.mem_get_info()
        if free_bytes < _PLENTY * total_bytes:
            arm.close()
            return
        arm.worker.begin_end()
        self._retired.append(arm)

    def hoarded(self, end: Callable[[], None]) -> bool:
        """See Workplace: nobody but itself limits a candidate's memory on the device."""
        free_bytes, total_bytes = torch.cuda.mem_get_info()
        end()
        deadline = time.monotonic() + _GIVEN_BACK_S
        while torch.cuda.mem_get_info()[0] - free_bytes < _HOARD * total_bytes:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def between(self) -> None:
        """See Workplace: a known computation must still come out as it did."""
        self._end_retired()
        self._refill()
        try:
            right = torch.equal(self._probed(), self._known)
        except torch.OutOfMemoryError as error:
            raise EvaluatorError(f"too little memory on the device after this candidate: {error}") from error
        except RuntimeError as error:
            raise JudgeLost(f"the device failed after this candidate: {error}") from error
        if not right:
            raise EvaluatorError("after this candidate the device computes otherwise than before")

    def close(self) -> None:
        """See Workplace."""
        self._end_retired()
        self._pool.close()
        if self._state is not None:
            self._state.close()

    def _end_retired(self) -> None:
        while self._retired:
            self._retired.pop().close()

    def _refill(self) -> None:
        """Have workers for one evaluation, and for the next one where there is memory: starting takes a second."""
        # For correctness, and both arms of each pair.
        workers = 1 + 2 * self._settings.timing.process_pairs
        free_bytes, total_bytes = torch.cuda.mem_get_info()
        self._pool.refill(workers, spare=workers if free_bytes > _PLENTY * total_bytes else 0)

    def _conditions(self) -> list[Conditions]:
        own = (os.getpid(), *processes.descendants(self._zygote.pid))
        return [] if self._state is None else [self._state.conditions(own)]

    def _probed(self) -> torch.Tensor:
        return (self._probe @ self._probe).sum(dim=1).cpu()

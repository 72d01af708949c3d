"""An arm that is asked for figures of its calls beside their time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evaluation.correctness.nested import map_tensors
from evaluation.profile import measured
from evaluation.worker import codec
from evaluation.worker.arm import WorkerArm
from evaluation.worker.buffers import payload_bytes
from evaluation.worker.handle import protocol_fault
from evaluation.worker.wire import Kind

_MOST_KERNELS = 10_000
_MOST_LAUNCHES = 10**7


@dataclass(slots=True)
class ProfileArm(WorkerArm):
    """Its worker has a device. What it answers is the candidate's to forge: checked for form, never for a verdict."""

    def counted(self, inputs: list[Any], limit_s: float) -> None:
        """One call that ncu sees; under it a call is made as often as its counters need."""
        self._measured(measured.COUNTED, inputs, limit_s)

    def peak_bytes(self, inputs: list[Any]) -> int:
        """That one call adds at most to what torch has allocated, its output included.

        Not in it: the context, libraries' workspaces, and what is allocated past torch.
        """
        found = self._measured(measured.PEAK, inputs, self.limits.call_s)
        if type(found) is not int or found < 0:
            raise protocol_fault("its memory is malformed")
        return found

    def kernels(self, inputs: list[Any]) -> list[tuple[str, float]]:
        """Name and microseconds of each kernel of one call, by torch's profiler (CUPTI's activities), caches warm."""
        found = self._measured(measured.TRACED, inputs, self.limits.call_s)
        if not isinstance(found, list) or len(found) > _MOST_KERNELS or not all(map(_is_kernel, found)):
            raise protocol_fault("its trace is malformed")
        return [(name, us) for name, us in found]

    def launches(self, inputs: list[Any]) -> int | None:
        """How many kernels one call queues, by a CUDA graph of it; None where it cannot be captured."""
        found = self._measured(measured.CAPTURED, inputs, self.limits.call_s)
        if type(found) is not int or not -1 <= found <= _MOST_LAUNCHES:
            raise protocol_fault("its count of kernels is malformed")
        return None if found < 0 else found

    def looped(self, inputs: list[Any], seconds: float) -> float:
        """Seconds per call of calls that follow each other for at least `seconds`, and end when this returns."""
        found = self._measured(measured.LOOP, inputs, seconds + self.limits.call_s, seconds)
        if not isinstance(found, float) or not 0 < found < seconds + self.limits.call_s:
            raise protocol_fault("its seconds per call are malformed")
        return found

    def _measured(self, mode: str, inputs: list[Any], limit_s: float, seconds: float = 0.0) -> Any:
        order = {"mode": mode, "inputs": map_tensors(lambda tensor: tensor.cpu(), inputs), "seconds": seconds}
        with self._blamed():
            self.worker.resume()
            shared = self._room(payload_bytes(order))
            payload = codec.encode(order, shared.region(0, shared.size), strict=True)
            answer = self._ask(Kind.PROFILE, payload, Kind.DONE, limit_s + self.first_call_s)
            self.worker.park()
            return self._decoded(answer)


def _is_kernel(entry: Any) -> bool:
    if not isinstance(entry, (list, tuple)) or len(entry) != 2:
        return False
    return isinstance(entry[0], str) and isinstance(entry[1], float) and entry[1] >= 0

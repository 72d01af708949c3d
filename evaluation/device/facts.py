"""What a GPU is, as its driver tells it: libcuda.so.1 by ctypes, without torch and without a context on the device.

Functions and numbers are those of the CUDA driver API (cuda.h of CUDA 13.0, `CUdevice_attribute`). Devices are numbered
as the driver numbers them for this process: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER hold, as they were when the
process first asked.
"""

from __future__ import annotations

import ctypes
import os
import uuid
from dataclasses import dataclass
from typing import Any

from evaluation.errors import EvaluatorError

LIBRARY = "libcuda.so.1"

_SUCCESS = 0
_NAME_BYTES = 256
_ATTRIBUTES = {
    "warp_threads": 10,
    "sm_clock_khz": 13,
    "sm_count": 16,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
    "l2_bytes": 38,
    "max_threads_per_sm": 39,
    "max_threads_per_block": 1,
    "shared_bytes_per_block": 8,
    "shared_bytes_per_block_optin": 97,
    "shared_bytes_per_sm": 81,
    "registers_per_sm": 82,
    "max_blocks_per_sm": 106,
}
_MAJOR, _MINOR = 75, 76


class FactsAbsent(EvaluatorError):
    """The driver tells nothing about this device. One sentence that says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """One GPU. Clocks are the highest that it may run at, not those of the moment."""

    name: str
    uuid: str
    """As NVML and lanes name it: `GPU-xxxxxxxx-...`."""
    cuda_driver: str
    """The newest CUDA that the driver serves, such as `13.0`."""
    compute_capability: tuple[int, int]
    total_memory_bytes: int
    """What programs may use; a little less than is soldered on."""
    sm_count: int
    sm_clock_khz: int
    memory_clock_khz: int
    """0 where the driver does not tell it."""
    memory_bus_bits: int
    """0 where the driver does not tell it."""
    l2_bytes: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int
    """Without asking for more."""
    shared_bytes_per_block_optin: int
    """What a kernel may have that asks for it (cudaFuncAttributeMaxDynamicSharedMemorySize)."""
    registers_per_sm: int
    """Of 32 bits."""
    max_threads_per_sm: int
    max_threads_per_block: int
    max_blocks_per_sm: int
    warp_threads: int

    @property
    def derived_bandwidth_bytes_s(self) -> float | None:
        """Of DRAM: 2 * memory clock * bus width / 8; None unless the driver tells both.

        The driver's clock is half the rate of a data pin with every memory of a GPU so far, GDDR6X and GDDR7 included,
        whatever their own clocks are. So 2619 MHz and 5120 bits are the 3.35 TB/s of an H100's datasheet, 10501 MHz and
        384 bits the 1.008 TB/s of an RTX 4090's. It may exceed the vendor's figure by a few percent.
        """
        if self.memory_clock_khz <= 0 or self.memory_bus_bits <= 0:
            return None
        return 2 * self.memory_clock_khz * 1e3 * self.memory_bus_bits / 8


def device_facts(index: int = 0, library: str = LIBRARY) -> DeviceFacts:
    """Of the `index`-th GPU that this process sees. Takes a tenth of a second at first and starts no process.

    Raises FactsAbsent, one sentence, where there is no driver, no such device, or no answer. Not to be used in a forked
    child whose parent has asked.
    """
    return _Driver(library).facts(index)


class _Driver:
    def __init__(self, library: str) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError:
            raise FactsAbsent(
                f"this machine has no NVIDIA driver ({library} does not load); run it on a machine with a GPU"
            ) from None
        self._call("cuInit", ctypes.c_uint(0))

    def facts(self, index: int) -> DeviceFacts:
        device = self._device(index)
        name = ctypes.create_string_buffer(_NAME_BYTES)
        self._call("cuDeviceGetName", name, ctypes.c_int(_NAME_BYTES), device)
        memory = ctypes.c_size_t()
        self._call("cuDeviceTotalMem_v2", ctypes.byref(memory), device)
        numbers = {field: self._attribute(number, device) for field, number in _ATTRIBUTES.items()}
        return DeviceFacts(
            name=name.value.decode(errors="replace"),
            uuid=self._uuid(device),
            cuda_driver=self._cuda_driver(),
            compute_capability=(self._attribute(_MAJOR, device), self._attribute(_MINOR, device)),
            total_memory_bytes=memory.value,
            **numbers,
        )

    def _device(self, index: int) -> ctypes.c_int:
        count, device = ctypes.c_int(), ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        if not 0 <= index < count.value:
            raise FactsAbsent(f"there is no GPU {index}: this process sees {count.value}, numbered from 0")
        self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(index))
        return device

    def _uuid(self, device: ctypes.c_int) -> str:
        raw = (ctypes.c_ubyte * 16)()
        self._call("cuDeviceGetUuid", raw, device)
        return f"GPU-{uuid.UUID(bytes=bytes(raw))}"

    def _cuda_driver(self) -> str:
        """From 1000 * major + 10 * minor."""
        version = ctypes.c_int()
        self._call("cuDriverGetVersion", ctypes.byref(version))
        return f"{version.value // 1000}.{version.value % 1000 // 10}"

    def _attribute(self, number: int, device: ctypes.c_int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(number), device)
        return value.value

    def _call(self, function: str, *arguments: Any) -> None:
        try:
            symbol = getattr(self._library, function)
        except AttributeError:
            raise FactsAbsent(f"the NVIDIA driver is too old: it has no {function}") from None
        code = int(symbol(*arguments))
        if code != _SUCCESS:
            raise FactsAbsent(f"the NVIDIA driver tells nothing: {function} failed, {self._meaning(code)}")

    def _meaning(self, code: int) -> str:
        words = ctypes.c_char_p()
        try:
            found = self._library.cuGetErrorString(ctypes.c_int(code), ctypes.byref(words))
        except AttributeError:
            found = -1
        text = (words.value or b"").decode(errors="replace") if found == _SUCCESS else ""
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        limited = "" if visible is None else f"; CUDA_VISIBLE_DEVICES is {visible!r}"
        return f"{text or 'no reason given'} (CUDA error {code}{limited})"

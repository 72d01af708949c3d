"""The state of an NVIDIA GPU as its driver tells it, through libnvidia-ml.so.1 alone.

Functions, structures and numbers are those of NVIDIA's NVML API reference
(https://docs.nvidia.com/deploy/nvml-api/). What the library lacks or refuses is absent (None): there are many reasons
for that (an older driver, a virtual machine, a device without the sensor, no permission), and a stand-in would look
like a figure.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from evaluation.verdict import Conditions

LIBRARY = "libnvidia-ml.so.1"

_SUCCESS = 0
_ERROR_INSUFFICIENT_SIZE = 7
_ERROR_FUNCTION_NOT_FOUND = 13
_MEANINGS = {
    2: "the UUID is not one of NVML's",
    4: "no permission",
    6: "no GPU of this machine has that UUID",
    9: "the NVIDIA driver is not loaded",
    _ERROR_FUNCTION_NOT_FOUND: "the library has no such function",
    15: "the GPU is lost",
    17: "the operating system blocks the device",
    18: "the library and the driver are of different versions",
}
"""nvmlReturn_t, those that opening may meet."""

_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_SENSOR_OF_THE_DIE = 0
_UNVIRTUALISED = (0, 1)
"""nvmlGpuVirtualizationMode_t of a GPU that this system has for itself: none, and passed through to it whole."""
_TEXT_BYTES = 96
"""The longest of NVML's names and versions, with the final zero."""
_FIRST_PROCESSES = 64
_PROCESS_ATTEMPTS = 3
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""Linux gives the first pid namespace this number always (PROC_PID_INIT_INO)."""

_IDLE = 0x1
_REASONS = {
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}


class DeviceStateAbsent(Exception):
    """The driver tells nothing about this device. One sentence that says why."""


class _Temperature(ctypes.Structure):
    """nvmlTemperature_v1_t, in degrees Celsius."""

    _fields_ = (("version", ctypes.c_uint), ("sensor", ctypes.c_uint), ("temperature", ctypes.c_int))


class _Memory(ctypes.Structure):
    """nvmlMemory_v2_t, in bytes; in its first version `used` holds what the driver reserves too."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _Utilisation(ctypes.Structure):
    """nvmlUtilization_t, in percent."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Process(ctypes.Structure):
    """nvmlProcessInfo_v2_t, which the third version of the query fills."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used_bytes", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class Device:
    """One GPU, by its UUID (`GPU-xxxxxxxx-...`), open until `close`.

    Raises DeviceStateAbsent where the library is missing, does not start, or does not know the device. Opening may take
    a second where no process uses the GPU; a look takes well below 5 ms and starts no process. Not to be used in a
    forked child.
    """

    def __init__(self, uuid: str, library: str = LIBRARY) -> None:
        self.uuid = uuid
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise DeviceStateAbsent(f"NVML does not load: {error}") from error
        self._require("NVML does not start", self._call("nvmlInit_v2"))
        self._open = True
        self._handle = ctypes.c_void_p()
        code = self._call("nvmlDeviceGetHandleByUUID", ctypes.c_char_p(uuid.encode()), ctypes.byref(self._handle))
        if code != _SUCCESS:
            self.close()
        self._require(f"NVML does not open {uuid}", code)
        self.name = self._text("nvmlDeviceGetName", self._handle)
        self.driver = self._text("nvmlSystemGetDriverVersion")
        self.cuda_driver = self._cuda_driver()
        self._max_sm_clock_mhz = self._clock("nvmlDeviceGetMaxClockInfo", _CLOCK_SM)
        self._sees_every_process = self._unvirtualised() and _in_initial_pid_namespace()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the library; a second time does nothing."""
        if self._open:
            self._open = False
            self._call("nvmlShutdown")

    def conditions(self, own: Collection[int]) -> Conditions:
        """One look at the device. `own`: pids of ours, of which one at least has a CUDA context on it."""
        power_mw = self._number(ctypes.c_uint(), "nvmlDeviceGetPowerUsage")
        power_limit_mw = self._number(ctypes.c_uint(), "nvmlDeviceGetEnforcedPowerLimit")
        return Conditions(
            sm_clock_mhz=self._clock("nvmlDeviceGetClockInfo", _CLOCK_SM),
            memory_clock_mhz=self._clock("nvmlDeviceGetClockInfo", _CLOCK_MEMORY),
            max_sm_clock_mhz=self._max_sm_clock_mhz,
            power_w=None if power_mw is None else power_mw / 1000,
            power_limit_w=None if power_limit_mw is None else power_limit_mw / 1000,
            temperature_c=self._temperature(),
            throttle_reasons=self._throttle_reasons(),
            foreign_processes=self._foreign_processes(own),
            utilisation_percent=self._utilisation(),
            memory_used_bytes=self._memory_used(),
        )

    def total_energy_mj(self) -> int | None:
        """Energy that the device has used since its driver was loaded, in millijoules."""
        return self._number(ctypes.c_ulonglong(), "nvmlDeviceGetTotalEnergyConsumption")

    def _call(self, function: str, *arguments: Any) -> int:
        try:
            symbol = getattr(self._library, function)
        except AttributeError:
            return _ERROR_FUNCTION_NOT_FOUND
        return int(symbol(*arguments))

    @staticmethod
    def _require(what: str, code: int) -> None:
        if code != _SUCCESS:
            raise DeviceStateAbsent(f"{what}: {_MEANINGS.get(code, 'it gives no reason')} (NVML error {code})")

    def _number(self, into: ctypes.c_uint | ctypes.c_ulonglong, function: str, *arguments: Any) -> int | None:
        """A function of the device that writes one number last. All bits set is NVML's own mark of no value."""
        if self._call(function, self._handle, *arguments, ctypes.byref(into)) != _SUCCESS:
            return None
        return None if into.value == type(into)(-1).value else into.value

    def _text(self, function: str, *before: Any) -> str | None:
        buffer = ctypes.create_string_buffer(_TEXT_BYTES)
        if self._call(function, *before, buffer, ctypes.c_uint(_TEXT_BYTES)) != _SUCCESS:
            return None
        return buffer.value.decode(errors="replace") or None

    def _clock(self, function: str, domain: int) -> int | None:
        return self._number(ctypes.c_uint(), function, ctypes.c_uint(domain))

    def _cuda_driver(self) -> str | None:
        """The newest CUDA that the driver serves, as `13.0`, from 1000 * major + 10 * minor."""
        version = ctypes.c_int()
        if self._call("nvmlSystemGetCudaDriverVersion_v2", ctypes.byref(version)) != _SUCCESS or version.value <= 0:
            return None
        return f"{version.value // 1000}.{version.value % 1000 // 10}"

    def _unvirtualised(self) -> bool:
        return self._number(ctypes.c_uint(), "nvmlDeviceGetVirtualizationMode") in _UNVIRTUALISED

    def _temperature(self) -> int | None:
        reading = _Temperature(version=ctypes.sizeof(_Temperature) | 1 << 24, sensor=_SENSOR_OF_THE_DIE)
        if self._call("nvmlDeviceGetTemperatureV", self._handle, ctypes.byref(reading)) == _SUCCESS:
            return int(reading.temperature)
        # Older drivers lack the former; NVML 13 deprecates this one.
        return self._number(ctypes.c_uint(), "nvmlDeviceGetTemperature", ctypes.c_uint(_SENSOR_OF_THE_DIE))

    def _throttle_reasons(self) -> list[str] | None:
        bits = self._number(ctypes.c_ulonglong(), "nvmlDeviceGetCurrentClocksEventReasons")
        if bits is None:
            # Its name in older drivers.
            bits = self._number(ctypes.c_ulonglong(), "nvmlDeviceGetCurrentClocksThrottleReasons")
        if bits is None:
            return None
        one_by_one = (1 << place for place in range(64) if bits >> place & 1)
        return [_REASONS.get(bit, f"reason_{bit:#x}") for bit in one_by_one if bit != _IDLE]

    def _utilisation(self) -> int | None:
        rates = _Utilisation()
        if self._call("nvmlDeviceGetUtilizationRates", self._handle, ctypes.byref(rates)) != _SUCCESS:
            return None
        return int(rates.gpu) if rates.gpu <= 100 else None

    def _memory_used(self) -> int | None:
        memory = _Memory(version=ctypes.sizeof(_Memory) | 2 << 24)
        if self._call("nvmlDeviceGetMemoryInfo_v2", self._handle, ctypes.byref(memory)) != _SUCCESS:
            return None
        return int(memory.used)

    def _compute_processes(self) -> list[int] | None:
        """Pids with a compute context on the device. More may appear between being told their number and asking."""
        room = _FIRST_PROCESSES
        for _ in range(_PROCESS_ATTEMPTS):
            found, count = (_Process * room)(), ctypes.c_uint(room)
            arguments = self._handle, ctypes.byref(count), found
            code = self._call("nvmlDeviceGetComputeRunningProcesses_v3", *arguments)
            if code == _SUCCESS:
                return [int(process.pid) for process in found[: min(count.value, room)]]
            if code != _ERROR_INSUFFICIENT_SIZE:
                return None
            room = count.value + _FIRST_PROCESSES
        return None

    def _foreign_processes(self, own: Collection[int]) -> list[int] | None:
        """None unless one of our own is seen, which shows that the pids are of our numbering.

        In a container's pid namespace or on a virtual GPU the others may be hidden: then those that are seen count, but
        seeing none does not.
        """
        listed = self._compute_processes()
        if listed is None or not set(own).intersection(listed):
            return None
        foreign = sorted(set(listed).difference(own))
        return foreign if foreign or self._sees_every_process else None


def _in_initial_pid_namespace() -> bool:
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == _INITIAL_PID_NAMESPACE
    except OSError:
        return False

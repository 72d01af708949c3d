import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from evaluation.device import nvml
from evaluation.device.nvml import Device, DeviceStateAbsent
from evaluation.environment import describe
from evaluation.sandbox.sandbox import Level
from evaluation.serialize import from_plain, to_plain
from evaluation.verdict import Conditions, Environment

UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"
SOURCE = Path(__file__).parents[1] / "data" / "fake_nvml.c"
OWN = [os.getpid()]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Builds the stand-in for the driver's library; its source says which flags there are."""
    folder = tmp_path_factory.mktemp("nvml")

    def build(*flags):
        path = folder / f"lib{'_'.join(flags)}.so"
        if not path.exists():
            command = ["gcc", "-Wall", "-Wextra", "-Wno-unused-function", "-Wno-type-limits", "-shared", "-fPIC"]
            subprocess.run([*command, *[f"-D{flag}" for flag in flags], "-o", path, SOURCE], check=True)
        return str(path)

    return build


@pytest.fixture
def every_process_is_seen(monkeypatch):
    """As outside containers, wherever this test runs."""
    monkeypatch.setattr(nvml, "_INITIAL_PID_NAMESPACE", str(Path("/proc/self/ns/pid").readlink()))


def test_every_figure_in_its_unit(library, every_process_is_seen):
    with Device(UUID, library("PROCESSES=2")) as device:
        assert (device.uuid, device.name) == (UUID, "NVIDIA H200")
        assert (device.driver, device.cuda_driver) == ("580.65.06", "12.8")
        assert device.total_energy_mj() == 5000000000123
        assert device.conditions(OWN) == Conditions(
            sm_clock_mhz=1755,
            memory_clock_mhz=3201,
            max_sm_clock_mhz=1980,
            power_w=312.345,
            power_limit_w=700.0,
            temperature_c=63,
            throttle_reasons=["sw_power_cap", "hw_thermal_slowdown", "reason_0x8000000000"],
            foreign_processes=[9000, 9001],
            utilisation_percent=97,
            memory_used_bytes=9000000001,
        )


def test_conditions_cross_json(library):
    with Device(UUID, library("PROCESSES=2")) as device:
        seen = device.conditions(OWN)
    assert from_plain(Conditions, to_plain(seen)) == seen


@pytest.mark.parametrize("code", [1, 3, 4, 15, 999])
def test_what_is_refused_is_absent(library, code):
    with Device(UUID, library(f"REFUSE={code}")) as device:
        assert (device.name, device.driver) == (None, "580.65.06")
        assert device.conditions(OWN) == Conditions()
        assert device.total_energy_mj() is None


def test_what_the_library_lacks_is_absent(library):
    with Device(UUID, library("BARE")) as device:
        assert (device.name, device.driver, device.cuda_driver) == (None, None, None)
        assert device.conditions(OWN) == Conditions()
        assert device.total_energy_mj() is None


def test_numbers_that_mark_no_value_are_absent(library):
    with Device(UUID, library("MARKED")) as device:
        seen = device.conditions([])
        assert seen == Conditions(temperature_c=63, memory_used_bytes=9000000001)
        assert device.total_energy_mj() is None


def test_an_older_driver_is_asked_by_its_own_names(library):
    with Device(UUID, library("OLD")) as device:
        seen = device.conditions(OWN)
    assert (seen.temperature_c, seen.throttle_reasons, seen.sm_clock_mhz) == (51, [], 1755)
    assert (seen.memory_used_bytes, seen.foreign_processes) == (None, None)


@pytest.mark.parametrize("count", [0, 63, 64, 300])
def test_all_foreign_processes_are_told(library, every_process_is_seen, count):
    with Device(UUID, library(f"PROCESSES={count}")) as device:
        assert device.conditions(OWN).foreign_processes == [9000 + i for i in range(count)]


def test_pids_of_another_numbering_are_absent(library, every_process_is_seen):
    with Device(UUID, library("PROCESSES=2", "HIDE_OWN")) as device:
        assert device.conditions(OWN).foreign_processes is None
    with Device(UUID, library("PROCESSES=2")) as device:
        assert device.conditions([]).foreign_processes is None


@pytest.mark.parametrize("mode", [2, 3])
def test_seeing_nobody_on_a_shared_gpu_is_no_figure(library, every_process_is_seen, mode):
    with Device(UUID, library(f"MODE={mode}")) as device:
        assert device.conditions(OWN).foreign_processes is None
    with Device(UUID, library(f"MODE={mode}", "PROCESSES=1")) as device:
        assert device.conditions(OWN).foreign_processes == [9000]


def test_seeing_nobody_from_within_a_container_is_no_figure(library, monkeypatch):
    monkeypatch.setattr(nvml, "_INITIAL_PID_NAMESPACE", "pid:[1]")
    with Device(UUID, library()) as device:
        assert device.conditions(OWN).foreign_processes is None


def test_what_was_started_is_shut_down_once(library):
    path = library()
    started = ctypes.CDLL(path).fake_started
    device = Device(UUID, path)
    assert started() == 1
    device.close()
    device.close()
    assert started() == 0
    with pytest.raises(DeviceStateAbsent):
        Device("GPU-0", path)
    assert started() == 0


def test_no_library_is_said_in_one_sentence():
    with pytest.raises(DeviceStateAbsent, match=r"^NVML does not load: libnone\.so\.1"):
        Device(UUID, "libnone.so.1")


@pytest.mark.parametrize(("code", "why"), [(9, "driver is not loaded"), (18, "different versions"), (999, "no reason")])
def test_a_library_that_does_not_start_is_said_in_one_sentence(library, code, why):
    with pytest.raises(DeviceStateAbsent, match=rf"^NVML does not start: .*{why} \(NVML error {code}\)$"):
        Device(UUID, library(f"INIT={code}"))


def test_an_unknown_device_is_said_in_one_sentence(library):
    with pytest.raises(DeviceStateAbsent, match=r"^NVML does not open GPU-0: no GPU of this machine has that UUID"):
        Device("GPU-0", library())


def test_another_library_is_refused():
    """It loads, but is not NVML."""
    with pytest.raises(DeviceStateAbsent, match="no such function"):
        Device(UUID, "libm.so.6")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_the_real_device_is_plausible(capsys):
    properties = torch.cuda.get_device_properties(0)
    kept = torch.ones(1 << 28, device="cuda")
    torch.cuda.synchronize()
    with Device(f"GPU-{properties.uuid}") as device:
        before_mj = device.total_energy_mj()
        for _ in range(200):
            kept.mul_(1.0)
        torch.cuda.synchronize()
        looks_s = []
        for _ in range(20):
            start = time.perf_counter()
            seen = device.conditions(OWN)
            looks_s.append(time.perf_counter() - start)
        after_mj = device.total_energy_mj()
        with capsys.disabled():
            sys.stdout.write(f"\n{device.name}, driver {device.driver}, CUDA {device.cuda_driver}\n")
            sys.stdout.write(f"energy {before_mj} to {after_mj} mJ\n")
            sys.stdout.write(f"a look takes {min(looks_s) * 1e3:.2f} to {max(looks_s) * 1e3:.2f} ms: {seen}\n")
        assert device.name == properties.name and device.driver and device.cuda_driver
    assert sorted(looks_s)[len(looks_s) // 2] < 0.005
    assert seen.sm_clock_mhz and seen.max_sm_clock_mhz and 100 <= seen.sm_clock_mhz <= seen.max_sm_clock_mhz < 5000
    assert seen.memory_clock_mhz is None or 100 < seen.memory_clock_mhz < 20000
    assert seen.power_w is None or 5 < seen.power_w < 1500
    assert seen.power_limit_w is None or 20 < seen.power_limit_w < 1500
    assert seen.temperature_c is None or 5 < seen.temperature_c < 100
    assert seen.utilisation_percent is None or 0 <= seen.utilisation_percent <= 100
    assert seen.memory_used_bytes is None or kept.nbytes <= seen.memory_used_bytes <= properties.total_memory * 1.1
    assert before_mj is None or after_mj is None or after_mj >= before_mj
    assert OWN[0] not in (seen.foreign_processes or [])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_an_environment_names_the_gpu_and_its_host():
    seen = describe("cuda", 1, Level(0))
    assert seen.device_name == torch.cuda.get_device_name(0)
    assert seen.cuda == torch.version.cuda
    assert seen.driver and seen.host and seen.host != seen.device_name


def test_an_environment_on_the_cpu_has_nothing_of_a_gpu():
    seen = describe("cpu", 1, Level(0))
    assert (seen.driver, seen.cuda, seen.nvcc, seen.host) == ("", "", "", "")
    assert seen.device_name


def test_an_environment_of_before_the_gpu_loads():
    plain = to_plain(describe("cpu", 1, Level(0)))
    old = {name: value for name, value in plain.items() if name not in ("driver", "cuda", "nvcc", "host")}
    assert from_plain(Environment, old) == describe("cpu", 1, Level(0))

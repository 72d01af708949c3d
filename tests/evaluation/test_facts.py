"""What libcuda tells of a GPU, by a stand-in for that library, and by the real one where there is a GPU."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from evaluation.device import facts
from evaluation.device.facts import DeviceFacts, FactsAbsent, device_facts
from evaluation.device.nvml import Device
from evaluation.environment import gpu_uuid

SOURCE = Path(__file__).parents[1] / "data" / "fake_cuda.c"
CHECKOUT = str(Path(__file__).parents[2])
HEADERS = [Path(root, "include/cuda.h") for root in ("/usr/local/cuda", "/usr/local/cuda-13.0")]
NAMES = {
    "warp_threads": "WARP_SIZE",
    "sm_clock_khz": "CLOCK_RATE",
    "sm_count": "MULTIPROCESSOR_COUNT",
    "memory_clock_khz": "MEMORY_CLOCK_RATE",
    "memory_bus_bits": "GLOBAL_MEMORY_BUS_WIDTH",
    "l2_bytes": "L2_CACHE_SIZE",
    "max_threads_per_sm": "MAX_THREADS_PER_MULTIPROCESSOR",
    "max_threads_per_block": "MAX_THREADS_PER_BLOCK",
    "shared_bytes_per_block": "MAX_SHARED_MEMORY_PER_BLOCK",
    "shared_bytes_per_block_optin": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "shared_bytes_per_sm": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "registers_per_sm": "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "max_blocks_per_sm": "MAX_BLOCKS_PER_MULTIPROCESSOR",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Builds the stand-in; its source says which flags there are."""
    folder = tmp_path_factory.mktemp("cuda")

    def build(*flags):
        path = folder / f"lib{'_'.join(flags)}.so"
        if not path.exists():
            command = ["gcc", "-Wall", "-Wextra", "-shared", "-fPIC", *[f"-D{flag}" for flag in flags]]
            subprocess.run([*command, "-o", path, SOURCE], check=True)
        return str(path)

    return build


def test_every_fact_in_its_place(library):
    found = device_facts(library=library())
    assert found == DeviceFacts(
        name="NVIDIA H100 80GB HBM3",
        uuid="GPU-00112233-4455-6677-8899-aabbccddeef0",
        cuda_driver="13.2",
        compute_capability=(9, 0),
        total_memory_bytes=85029158912,
        sm_count=132,
        sm_clock_khz=1980000,
        memory_clock_khz=2619000,
        memory_bus_bits=5120,
        l2_bytes=52428800,
        shared_bytes_per_sm=233472,
        shared_bytes_per_block=49152,
        shared_bytes_per_block_optin=232448,
        registers_per_sm=65536,
        max_threads_per_sm=2048,
        max_threads_per_block=1024,
        max_blocks_per_sm=33,
        warp_threads=32,
    )
    # The datasheet of this product says 3.35 TB/s.
    assert found.derived_bandwidth_bytes_s == pytest.approx(3.352e12, rel=1e-3)


def test_the_second_device_is_another_one(library):
    found = device_facts(1, library("DEVICES=2"))
    assert (found.name, found.uuid[-2:]) == ("NVIDIA Other", "f1")


def test_no_bandwidth_is_derived_without_a_clock(library):
    found = device_facts(library=library("NO_CLOCK"))
    assert (found.memory_clock_khz, found.derived_bandwidth_bytes_s) == (0, None)


@pytest.mark.parametrize(
    ("flags", "index", "says"),
    [
        (["INIT=100"], 0, "no CUDA-capable device is detected (CUDA error 100; CUDA_VISIBLE_DEVICES is '')"),
        (["INIT=999"], 0, "cuInit failed, no reason given (CUDA error 999; CUDA_VISIBLE_DEVICES is '')"),
        (["DEVICES=2"], 2, "there is no GPU 2: this process sees 2, numbered from 0"),
        (["DEVICES=2"], -1, "there is no GPU -1: this process sees 2, numbered from 0"),
        (["REFUSE=38"], 0, "cuDeviceGetAttribute failed, no reason given (CUDA error 1;"),
        (["OLD"], 0, "the NVIDIA driver is too old: it has no cuDeviceGetUuid"),
    ],
)  # fmt: skip
def test_what_is_refused_is_said_in_one_sentence(library, monkeypatch, flags, index, says):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(FactsAbsent, match=re.escape(says)) as raised:
        device_facts(index, library(*flags))
    assert "\n" not in str(raised.value)


def test_no_driver_is_said_in_one_sentence(tmp_path):
    missing = str(tmp_path / "libcuda.so.1")
    with pytest.raises(FactsAbsent, match=r"this machine has no NVIDIA driver \(.*libcuda.so.1 does not load\)"):
        device_facts(library=missing)


def test_the_numbers_are_those_of_the_header():
    header = next((path for path in HEADERS if path.exists()), None)
    if header is None:
        pytest.skip("no CUDA toolkit here")
    text = header.read_text(encoding="utf-8")
    numbers = dict(re.findall(r"CU_DEVICE_ATTRIBUTE_(\w+) = (\d+)", text))
    assert facts._ATTRIBUTES.keys() == NAMES.keys()
    assert {field: int(numbers[name]) for field, name in NAMES.items()} == facts._ATTRIBUTES
    assert (int(numbers["COMPUTE_CAPABILITY_MAJOR"]), int(numbers["COMPUTE_CAPABILITY_MINOR"])) == (75, 76)


def test_an_agent_may_ask_without_torch(library):
    script = (
        "import sys; from evaluation.device.facts import device_facts\n"
        f"assert device_facts(library={library()!r}).sm_count == 132\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, "PYTHONPATH": CHECKOUT})


@pytest.mark.gpu
def test_facts_are_those_that_torch_knows():
    found, known = device_facts(), torch.cuda.get_device_properties(0)
    assert found.name == known.name
    assert found.uuid == gpu_uuid()
    assert found.compute_capability == (known.major, known.minor)
    assert found.total_memory_bytes == known.total_memory
    assert found.sm_count == known.multi_processor_count
    assert found.l2_bytes == known.L2_cache_size
    assert found.max_threads_per_sm == known.max_threads_per_multi_processor
    assert found.shared_bytes_per_sm == known.shared_memory_per_multiprocessor
    assert found.shared_bytes_per_block == known.shared_memory_per_block
    assert found.warp_threads == known.warp_size
    with Device(found.uuid) as device:
        assert (device.name, device.cuda_driver) == (found.name, found.cuda_driver)


@pytest.mark.gpu
def test_asking_makes_no_context():
    """A context holds hundreds of megabytes of the device; the driver lists none for a process that only asks."""
    script = (
        "import ctypes; from evaluation.device.facts import device_facts\n"
        "device_facts()\n"
        "current, active, flags = ctypes.c_void_p(), ctypes.c_int(-1), ctypes.c_uint()\n"
        "driver = ctypes.CDLL('libcuda.so.1')\n"
        "assert driver.cuCtxGetCurrent(ctypes.byref(current)) == 0 and current.value is None\n"
        "assert driver.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active)) == 0\n"
        "assert active.value == 0"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, "PYTHONPATH": CHECKOUT})


@pytest.mark.gpu
def test_visible_devices_hold_as_for_the_driver():
    script = "from evaluation.device.facts import device_facts; device_facts()"
    environment = {**os.environ, "PYTHONPATH": CHECKOUT, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 1
    assert "FactsAbsent: the NVIDIA driver tells nothing: cuInit failed" in done.stderr
    uuid = device_facts().uuid
    script = f"from evaluation.device.facts import device_facts; assert device_facts().uuid == {uuid!r}"
    subprocess.run([sys.executable, "-c", script], check=True, env={**environment, "CUDA_VISIBLE_DEVICES": uuid})

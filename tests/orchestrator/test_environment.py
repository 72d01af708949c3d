"""What is kept about the code, the packages, the machine and its GPUs, so that a sweep can be had again."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from evaluation.serialize import from_plain, to_plain
from orchestrator.checkout import UNTRACKED_LIMIT_BYTES, read_checkout
from orchestrator.environment import HostEnvironment, capture, packages, read_gpus
from orchestrator.store.store import dump

SMI = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <driver_version>570.86.15</driver_version>
  <cuda_version>12.8</cuda_version>
  <attached_gpus>1</attached_gpus>
  <gpu id="00000000:18:00.0">
    <product_name>NVIDIA H200</product_name>
    <uuid>GPU-6f1c2d3e-0000-1111-2222-333344445555</uuid>
    <clocks><graphics_clock>345 MHz</graphics_clock><sm_clock>345 MHz</sm_clock><mem_clock>3201 MHz</mem_clock></clocks>
    <max_clocks><sm_clock>1980 MHz</sm_clock><mem_clock>N/A</mem_clock></max_clocks>
  </gpu>
</nvidia_smi_log>
"""


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "kept.py").write_text("one = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_a_patch_restores_the_checkout_with_its_untracked_files(checkout: Path, tmp_path: Path) -> None:
    clean, no_patch = read_checkout(checkout)
    assert clean.commit and clean.patch_sha256 is None and no_patch == b""
    (checkout / "kept.py").write_text("one = 2\n")
    (checkout / "new.bin").write_bytes(bytes(range(256)))
    objects = sorted((checkout / ".git/objects").rglob("*"))
    dirty, patch = read_checkout(checkout)
    assert sorted((checkout / ".git/objects").rglob("*")) == objects
    assert dirty.patch_sha256 == hashlib.sha256(patch).hexdigest() and dirty.commit == clean.commit
    git(tmp_path, "clone", "-q", str(checkout), "restored")
    (tmp_path / "patch").write_bytes(patch)
    git(tmp_path / "restored", "apply", str(tmp_path / "patch"))
    for name in ("kept.py", "new.bin"):
        assert (tmp_path / "restored" / name).read_bytes() == (checkout / name).read_bytes()


def test_a_large_untracked_file_is_left_out_and_named(checkout: Path) -> None:
    (checkout / "new.py").write_text("two = 2\n")
    (checkout / "w[0]:ä *.bin").write_bytes(bytes(UNTRACKED_LIMIT_BYTES + 1))
    state, patch = read_checkout(checkout)
    assert state.left_out == {"w[0]:ä *.bin": UNTRACKED_LIMIT_BYTES + 1}
    assert b"two = 2" in patch and b".bin" not in patch and len(patch) < 1000


def test_without_git_the_note_says_why(tmp_path: Path) -> None:
    state, patch = read_checkout(tmp_path)
    assert state.commit is None and "not a git repository" in state.note and not patch


def test_the_environment_is_read_back_as_it_was_written(checkout: Path) -> None:
    environment, _ = capture(checkout, "ab" * 32, "name: x\n")
    assert from_plain(HostEnvironment, json.loads(dump(to_plain(environment)))) == environment
    assert environment.python == platform.python_version() and environment.cpu and environment.cpu_count > 0
    assert environment.config_sha256 == hashlib.sha256(b"name: x\n").hexdigest()


def test_packages_are_locked_by_version_and_by_the_hashes_of_their_files() -> None:
    found = packages()
    assert found["torch"].version == metadata.version("torch")
    for name, package in found.items():
        distribution = metadata.distribution(name)
        assert package.version == distribution.version
        if distribution.read_text("RECORD"):
            assert package.record_sha256 is not None and re.fullmatch(r"[0-9a-f]{64}", package.record_sha256)


def test_gpus_are_what_nvidia_smi_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "smi.xml").write_text(SMI)
    program = tmp_path / "nvidia-smi"
    program.write_text(f'#!/bin/sh\n[ "$*" = "-q -x" ] && /bin/cat {tmp_path}/smi.xml\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    gpus = read_gpus()
    assert (gpus.driver, gpus.cuda, gpus.absent) == ("570.86.15", "12.8", "")
    [gpu] = gpus.devices
    assert (gpu.uuid, gpu.name) == ("GPU-6f1c2d3e-0000-1111-2222-333344445555", "NVIDIA H200")
    assert (gpu.sm_clock_mhz, gpu.memory_clock_mhz) == (345.0, 3201.0)
    assert (gpu.sm_clock_max_mhz, gpu.memory_clock_max_mhz) == (1980.0, None)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "nvidia-smi is not installed"),
        ("echo no driver; exit 9", "nvidia-smi failed: no driver"),
        ("echo text", "nvidia-smi wrote no XML"),
    ],
)
def test_absent_gpus_have_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, reason: str
) -> None:
    if script is not None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    gpus = read_gpus()
    assert gpus.devices == [] and gpus.driver is None and gpus.absent.startswith(reason)

"""With what a sweep was made: code, packages, machine, GPUs. Recorded, no part of identity."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from orchestrator.checkout import Checkout, read_checkout

NVIDIA_SMI_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One installed distribution, as its metadata describe it."""

    version: str
    record_sha256: str | None
    """Hash of its RECORD, which lists the hash of every installed file; None when it has none."""
    archive_sha256: str | None = None
    """Hash of the archive, which is known of what was installed by a direct URL."""
    source: str | None = None
    """The URL that it was installed from, when that was no index; a `file:` URL of a folder may be edited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU, as `nvidia-smi` shows it; clocks are those of the moment."""

    uuid: str
    name: str
    sm_clock_mhz: float | None
    memory_clock_mhz: float | None
    sm_clock_max_mhz: float | None
    memory_clock_max_mhz: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The GPUs of this machine and what drives them."""

    driver: str | None = None
    cuda: str | None = None
    """The newest CUDA that the driver serves."""
    devices: list[Gpu] = field(default_factory=list)
    absent: str = ""
    """Why there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEnvironment:
    """The machine and software of one launch."""

    checkout: Checkout
    code_sha256: str
    """Hash of the code that the workers run; they find it in `<outputs>/code/<hash>`."""
    config_sha256: str
    """Hash of the resolved config, which is kept beside this file as experiment.yaml."""
    python: str
    packages: dict[str, Package]
    platform: str
    host: str
    cpu: str
    cpu_count: int
    gpus: Gpus


def capture(checkout: Path, code_sha256: str, config: str) -> tuple[HostEnvironment, bytes]:
    """The environment, and the patch of the checkout (empty when it is clean or too large)."""
    state, patch = read_checkout(checkout)
    environment = HostEnvironment(
        checkout=state,
        code_sha256=code_sha256,
        config_sha256=hashlib.sha256(config.encode()).hexdigest(),
        python=platform.python_version(),
        packages=packages(),
        platform=platform.platform(),
        host=platform.node(),
        cpu=_cpu_name(),
        cpu_count=os.cpu_count() or 1,
        gpus=read_gpus(),
    )
    return environment, patch


def packages() -> dict[str, Package]:
    """All installed distributions by name; of several with one name the one that an import finds."""
    found: dict[str, Package] = {}
    for item in metadata.distributions():
        if item.metadata["Name"] not in found:
            found[item.metadata["Name"]] = _package(item)
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def read_gpus() -> Gpus:
    """What `nvidia-smi` says; where there is none, or it fails, why."""
    command = ["nvidia-smi", "-q", "-x"]
    try:
        text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=NVIDIA_SMI_LIMIT_S).stdout
        log = ElementTree.fromstring(text)
    except FileNotFoundError:
        return Gpus(absent="nvidia-smi is not installed")
    except subprocess.CalledProcessError as error:
        return Gpus(absent=f"nvidia-smi failed: {(error.stdout or error.stderr).strip()}")
    except subprocess.TimeoutExpired:
        return Gpus(absent=f"nvidia-smi did not answer in {NVIDIA_SMI_LIMIT_S:.0f} s")
    except ElementTree.ParseError as error:
        return Gpus(absent=f"nvidia-smi wrote no XML: {error}")
    return Gpus(
        driver=log.findtext("driver_version"),
        cuda=log.findtext("cuda_version"),
        devices=[_gpu(node) for node in log.findall("gpu")],
    )


def _gpu(node: ElementTree.Element) -> Gpu:
    return Gpu(
        uuid=node.findtext("uuid", ""),
        name=node.findtext("product_name", ""),
        sm_clock_mhz=_mhz(node, "clocks/sm_clock"),
        memory_clock_mhz=_mhz(node, "clocks/mem_clock"),
        sm_clock_max_mhz=_mhz(node, "max_clocks/sm_clock"),
        memory_clock_max_mhz=_mhz(node, "max_clocks/mem_clock"),
    )


def _mhz(node: ElementTree.Element, path: str) -> float | None:
    """`1980 MHz` as a number; None where the driver says `N/A`."""
    number, _, unit = node.findtext(path, "").partition(" ")
    return float(number) if unit == "MHz" else None


def _package(item: metadata.Distribution) -> Package:
    record, direct = item.read_text("RECORD"), json.loads(item.read_text("direct_url.json") or "{}")
    return Package(
        version=item.version,
        record_sha256=hashlib.sha256(record.encode()).hexdigest() if record else None,
        archive_sha256=direct.get("archive_info", {}).get("hashes", {}).get("sha256"),
        source=direct.get("url"),
    )


def _cpu_name() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()

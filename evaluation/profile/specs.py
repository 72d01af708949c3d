"""What common GPUs can do at most, by their vendor's datasheets.

All rates are dense. Datasheets print those of the tensor cores with 2:4 sparsity from Ampere on; they are halved here.
fp64 and fp32 are those of the ordinary cores, tf32 to int8 those of the tensor cores with accumulation in fp32 (int32).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Specs:
    """One product."""

    name: str
    compute_capability: tuple[int, int]
    sm_count: int
    l2_bytes: int
    dram_bandwidth_bytes_s: float
    peak_flops: dict[str, float]
    """Floating-point (int8: integer) operations per second by precision; a fused multiply-add counts as two."""
    source: str


_HOPPER = {
    "fp64": 34e12, "fp32": 67e12, "tf32": 494.7e12, "fp16": 989.4e12, "bf16": 989.4e12, "fp8": 1978.9e12,
    "int8": 1978.9e12,
}  # fmt: skip
_AMPERE = {"fp64": 9.7e12, "fp32": 19.5e12, "tf32": 156e12, "fp16": 312e12, "bf16": 312e12, "int8": 624e12}
_A100, _H100, _H200 = "NVIDIA A100 datasheet", "NVIDIA H100 datasheet", "NVIDIA H200 datasheet"

_KNOWN: dict[tuple[str, ...], Specs] = {
    ("H200",): Specs(
        name="H200 SXM",
        compute_capability=(9, 0),
        sm_count=132,
        l2_bytes=50 * 2**20,
        dram_bandwidth_bytes_s=4.8e12,
        peak_flops=_HOPPER,
        source=_H200,
    ),
    ("H100", "PCIe"): Specs(
        name="H100 PCIe",
        compute_capability=(9, 0),
        sm_count=114,
        l2_bytes=50 * 2**20,
        dram_bandwidth_bytes_s=2.0e12,
        peak_flops={
            "fp64": 26e12,
            "fp32": 51e12,
            "tf32": 378e12,
            "fp16": 756e12,
            "bf16": 756e12,
            "fp8": 1513e12,
            "int8": 1513e12,
        },
        source=_H100,
    ),
    ("H100", "HBM3"): Specs(
        name="H100 SXM",
        compute_capability=(9, 0),
        sm_count=132,
        l2_bytes=50 * 2**20,
        dram_bandwidth_bytes_s=3.35e12,
        peak_flops=_HOPPER,
        source=_H100,
    ),
    ("A100", "80GB", "PCIe"): Specs(
        name="A100 80 GB PCIe",
        compute_capability=(8, 0),
        sm_count=108,
        l2_bytes=40 * 2**20,
        dram_bandwidth_bytes_s=1.935e12,
        peak_flops=_AMPERE,
        source=_A100,
    ),
    ("A100", "80GB"): Specs(
        name="A100 80 GB SXM",
        compute_capability=(8, 0),
        sm_count=108,
        l2_bytes=40 * 2**20,
        dram_bandwidth_bytes_s=2.039e12,
        peak_flops=_AMPERE,
        source=_A100,
    ),
    ("A100", "40GB"): Specs(
        name="A100 40 GB",
        compute_capability=(8, 0),
        sm_count=108,
        l2_bytes=40 * 2**20,
        dram_bandwidth_bytes_s=1.555e12,
        peak_flops=_AMPERE,
        source=_A100,
    ),
    ("L40S",): Specs(
        name="L40S",
        compute_capability=(8, 9),
        sm_count=142,
        l2_bytes=96 * 2**20,
        dram_bandwidth_bytes_s=0.864e12,
        peak_flops={
            "fp32": 91.6e12,
            "tf32": 183e12,
            "fp16": 362e12,
            "bf16": 362e12,
            "fp8": 733e12,
            "int8": 733e12,
        },
        source="NVIDIA L40S datasheet",
    ),
    ("RTX 4090",): Specs(
        name="GeForce RTX 4090",
        compute_capability=(8, 9),
        sm_count=128,
        l2_bytes=72 * 2**20,
        dram_bandwidth_bytes_s=1.008e12,
        peak_flops={
            "fp32": 82.6e12,
            "tf32": 82.6e12,
            "fp16": 165.2e12,
            "bf16": 165.2e12,
            "fp8": 330.3e12,
            "int8": 660.6e12,
        },
        source="NVIDIA Ada GPU architecture whitepaper",
    ),
}
"""By words that the driver's name of the GPU has, the more exact ones first."""


_OTHERS = {"MIG", "NVL", "Laptop", "D", "Max-Q"}
"""Words in the names of slices and variants, which can do less than the product whose words they also have."""


def specs_of(name: str) -> Specs | None:
    """Of the GPU that the driver calls `name`, such as `NVIDIA H100 80GB HBM3`; None for one that is not listed."""
    found = set(name.replace("-", " ").split()) | set(name.split())
    if found & _OTHERS:
        return None
    return next((specs for words, specs in _KNOWN.items() if found.issuperset(" ".join(words).split())), None)

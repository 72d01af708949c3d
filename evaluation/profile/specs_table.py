"""The figures of common GPUs. A rate that the vendor does not print, or prints unclearly, is left out.

All rates are dense. Datasheets print those of the tensor cores with 2:4 sparsity from Ampere on; they are halved here.
fp64 and fp32 are those of the ordinary cores, tf32 to int8 those of the tensor cores with accumulation in fp32 (int32):
on GeForce that is half of what they do with accumulation in fp16. A product stands at its full power limit. The source
is that of bandwidth and rates; SMs and the L2 cache are as drivers tell them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Specs:
    """One product."""

    name: str
    driver_names: tuple[str, ...]
    """What drivers call it."""
    compute_capability: tuple[int, int]
    sm_count: int
    l2_bytes: int
    dram_bandwidth_bytes_s: float
    peak_flops: dict[str, float]
    """Floating-point (int8: integer) operations per second by precision; a fused multiply-add counts as two."""
    source: str


def _peaks(**tera: float) -> dict[str, float]:
    """From 1e12 operations per second."""
    return {precision: 1e12 * rate for precision, rate in tera.items()}


_MB = 2**20
_HOPPER = _peaks(fp64=34, fp32=67, tf32=494.7, fp16=989.4, bf16=989.4, fp8=1978.9, int8=1978.9)
_GA100 = _peaks(fp64=9.7, fp32=19.5, tf32=156, fp16=312, bf16=312, int8=624)
_GA102 = "NVIDIA Ampere GA102 GPU architecture whitepaper"
_ADA = "NVIDIA Ada GPU architecture whitepaper"

PRODUCTS: tuple[Specs, ...] = (
    Specs(
        name="B200 SXM",
        driver_names=("NVIDIA B200",),
        compute_capability=(10, 0),
        sm_count=148,
        l2_bytes=126 * _MB,
        dram_bandwidth_bytes_s=7.7e12,
        peak_flops=_peaks(fp64=37, fp32=75, tf32=1125, fp16=2250, bf16=2250, fp8=4500, int8=4500),
        source="NVIDIA HGX B200 specifications, an eighth of the board",
    ),
    Specs(
        name="GH200 96 GB",
        driver_names=("NVIDIA GH200 480GB", "NVIDIA GH200 120GB"),
        compute_capability=(9, 0),
        sm_count=132,
        l2_bytes=60 * _MB,
        dram_bandwidth_bytes_s=4.0e12,
        peak_flops=_HOPPER,
        source="NVIDIA GH200 Grace Hopper superchip datasheet",
    ),
    Specs(
        name="GH200 144 GB",
        driver_names=("NVIDIA GH200 144G HBM3e",),
        compute_capability=(9, 0),
        sm_count=132,
        l2_bytes=60 * _MB,
        dram_bandwidth_bytes_s=4.9e12,
        peak_flops=_HOPPER,
        source="NVIDIA GH200 Grace Hopper superchip datasheet",
    ),
    Specs(
        name="H200 SXM",
        driver_names=("NVIDIA H200",),
        compute_capability=(9, 0),
        sm_count=132,
        l2_bytes=60 * _MB,
        dram_bandwidth_bytes_s=4.8e12,
        peak_flops=_HOPPER,
        source="NVIDIA H200 datasheet",
    ),
    Specs(
        name="H100 PCIe",
        driver_names=("NVIDIA H100 PCIe",),
        compute_capability=(9, 0),
        sm_count=114,
        l2_bytes=50 * _MB,
        dram_bandwidth_bytes_s=2.0e12,
        peak_flops=_peaks(fp64=26, fp32=51, tf32=378, fp16=756, bf16=756, fp8=1513, int8=1513),
        source="NVIDIA H100 datasheet",
    ),
    Specs(
        name="H100 SXM",
        driver_names=("NVIDIA H100 80GB HBM3",),
        compute_capability=(9, 0),
        sm_count=132,
        l2_bytes=50 * _MB,
        dram_bandwidth_bytes_s=3.35e12,
        peak_flops=_HOPPER,
        source="NVIDIA H100 datasheet",
    ),
    Specs(
        name="A100 80 GB PCIe",
        driver_names=("NVIDIA A100 80GB PCIe",),
        compute_capability=(8, 0),
        sm_count=108,
        l2_bytes=40 * _MB,
        dram_bandwidth_bytes_s=1.935e12,
        peak_flops=_GA100,
        source="NVIDIA A100 datasheet",
    ),
    Specs(
        name="A100 80 GB SXM",
        driver_names=("NVIDIA A100-SXM4-80GB",),
        compute_capability=(8, 0),
        sm_count=108,
        l2_bytes=40 * _MB,
        dram_bandwidth_bytes_s=2.039e12,
        peak_flops=_GA100,
        source="NVIDIA A100 datasheet",
    ),
    Specs(
        name="A100 40 GB",
        driver_names=("NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB"),
        compute_capability=(8, 0),
        sm_count=108,
        l2_bytes=40 * _MB,
        dram_bandwidth_bytes_s=1.555e12,
        peak_flops=_GA100,
        source="NVIDIA A100 datasheet",
    ),
    Specs(
        name="L40S",
        driver_names=("NVIDIA L40S",),
        compute_capability=(8, 9),
        sm_count=142,
        l2_bytes=96 * _MB,
        dram_bandwidth_bytes_s=0.864e12,
        peak_flops=_peaks(fp32=91.6, tf32=183, fp16=362, bf16=362, fp8=733, int8=733),
        source="NVIDIA L40S datasheet",
    ),
    Specs(
        name="L4",
        driver_names=("NVIDIA L4",),
        compute_capability=(8, 9),
        sm_count=58,
        l2_bytes=48 * _MB,
        dram_bandwidth_bytes_s=0.3e12,
        peak_flops=_peaks(fp32=30.3, tf32=60, fp16=121, bf16=121, fp8=242.5, int8=242.5),
        source="NVIDIA L4 datasheet",
    ),
    Specs(
        name="A10",
        driver_names=("NVIDIA A10",),
        compute_capability=(8, 6),
        sm_count=72,
        l2_bytes=6 * _MB,
        dram_bandwidth_bytes_s=0.6e12,
        peak_flops=_peaks(fp32=31.2, tf32=62.5, fp16=125, bf16=125, int8=250),
        source="NVIDIA A10 datasheet",
    ),
    Specs(
        name="T4",
        driver_names=("Tesla T4",),
        compute_capability=(7, 5),
        sm_count=40,
        l2_bytes=4 * _MB,
        dram_bandwidth_bytes_s=0.32e12,
        peak_flops=_peaks(fp32=8.1, fp16=65, int8=130),
        source="NVIDIA Turing GPU architecture whitepaper",
    ),
    Specs(
        name="V100 SXM2",
        driver_names=("Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB"),
        compute_capability=(7, 0),
        sm_count=80,
        l2_bytes=6 * _MB,
        dram_bandwidth_bytes_s=0.9e12,
        peak_flops=_peaks(fp64=7.8, fp32=15.7, fp16=125),
        source="NVIDIA V100 datasheet",
    ),
    Specs(
        name="V100 PCIe",
        driver_names=("Tesla V100-PCIE-16GB", "Tesla V100-PCIE-32GB"),
        compute_capability=(7, 0),
        sm_count=80,
        l2_bytes=6 * _MB,
        dram_bandwidth_bytes_s=0.9e12,
        peak_flops=_peaks(fp64=7, fp32=14, fp16=112),
        source="NVIDIA V100 datasheet",
    ),
    Specs(
        name="RTX 6000 Ada",
        driver_names=("NVIDIA RTX 6000 Ada Generation",),
        compute_capability=(8, 9),
        sm_count=142,
        l2_bytes=96 * _MB,
        dram_bandwidth_bytes_s=0.96e12,
        peak_flops=_peaks(fp32=91.1, tf32=182.1, fp16=364.2, bf16=364.2, fp8=728.5, int8=728.5),
        source=_ADA,
    ),
    Specs(
        name="RTX A6000",
        driver_names=("NVIDIA RTX A6000",),
        compute_capability=(8, 6),
        sm_count=84,
        l2_bytes=6 * _MB,
        dram_bandwidth_bytes_s=0.768e12,
        peak_flops=_peaks(fp32=38.7, tf32=77.4, fp16=154.8, bf16=154.8, int8=309.7),
        source=_GA102,
    ),
    Specs(
        name="GeForce RTX 5090",
        driver_names=("NVIDIA GeForce RTX 5090",),
        compute_capability=(12, 0),
        sm_count=170,
        l2_bytes=96 * _MB,
        dram_bandwidth_bytes_s=1.792e12,
        peak_flops=_peaks(fp32=104.8, tf32=104.8, fp16=209.5, bf16=209.5, fp8=419, int8=838),
        source="NVIDIA RTX Blackwell GPU architecture whitepaper",
    ),
    Specs(
        name="GeForce RTX 4090",
        driver_names=("NVIDIA GeForce RTX 4090",),
        compute_capability=(8, 9),
        sm_count=128,
        l2_bytes=72 * _MB,
        dram_bandwidth_bytes_s=1.008e12,
        peak_flops=_peaks(fp32=82.6, tf32=82.6, fp16=165.2, bf16=165.2, fp8=330.3, int8=660.6),
        source=_ADA,
    ),
    Specs(
        name="GeForce RTX 3090",
        driver_names=("NVIDIA GeForce RTX 3090",),
        compute_capability=(8, 6),
        sm_count=82,
        l2_bytes=6 * _MB,
        dram_bandwidth_bytes_s=0.936e12,
        peak_flops=_peaks(fp32=35.6, tf32=35.6, fp16=71, bf16=71, int8=284),
        source=_GA102,
    ),
)

"""Which GPU is which."""

import pytest

from evaluation.profile.specs import specs_of

NAMES = {
    "NVIDIA H200": ("H200 SXM", 4.8e12),
    "NVIDIA H100 80GB HBM3": ("H100 SXM", 3.35e12),
    "NVIDIA H100 PCIe": ("H100 PCIe", 2.0e12),
    "NVIDIA A100-SXM4-80GB": ("A100 80 GB SXM", 2.039e12),
    "NVIDIA A100 80GB PCIe": ("A100 80 GB PCIe", 1.935e12),
    "NVIDIA A100-PCIE-40GB": ("A100 40 GB", 1.555e12),
    "NVIDIA L40S": ("L40S", 0.864e12),
    "NVIDIA GeForce RTX 4090": ("GeForce RTX 4090", 1.008e12),
}


@pytest.mark.parametrize("name", NAMES)
def test_the_drivers_name_tells_the_product(name):
    specs = specs_of(name)
    assert (specs.name, specs.dram_bandwidth_bytes_s) == NAMES[name]
    # A tensor core does a narrower type at least as fast.
    order = [specs.peak_flops[kind] for kind in ("tf32", "bf16", "int8")]
    assert order == sorted(order)


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA GeForce GTX 1080",
        "NVIDIA GH200 480GB",
        "NVIDIA H200 NVL",
        "NVIDIA H200 MIG 1g.18gb",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
    ],
)
def test_one_that_is_not_listed_gets_no_other_ones_peaks(name):
    assert specs_of(name) is None

"""Which GPU is which, and what holds of all their figures."""

import pytest

from evaluation.device.facts import device_facts
from evaluation.profile.specs import ridge_points, specs_of
from evaluation.profile.specs_table import PRODUCTS

NAMES = {
    "NVIDIA B200": ("B200 SXM", 7.7e12),
    "NVIDIA GH200 480GB": ("GH200 96 GB", 4.0e12),
    "NVIDIA GH200 144G HBM3e": ("GH200 144 GB", 4.9e12),
    "NVIDIA H200": ("H200 SXM", 4.8e12),
    "NVIDIA H100 80GB HBM3": ("H100 SXM", 3.35e12),
    "NVIDIA H100 PCIe": ("H100 PCIe", 2.0e12),
    "NVIDIA A100-SXM4-80GB": ("A100 80 GB SXM", 2.039e12),
    "NVIDIA A100 80GB PCIe": ("A100 80 GB PCIe", 1.935e12),
    "NVIDIA A100-PCIE-40GB": ("A100 40 GB", 1.555e12),
    "A100-SXM4-40GB": ("A100 40 GB", 1.555e12),
    "NVIDIA L40S": ("L40S", 0.864e12),
    "NVIDIA L4": ("L4", 0.3e12),
    "NVIDIA A10": ("A10", 0.6e12),
    "Tesla T4": ("T4", 0.32e12),
    "Tesla V100-SXM2-32GB": ("V100 SXM2", 0.9e12),
    "Tesla V100-PCIE-16GB": ("V100 PCIe", 0.9e12),
    "NVIDIA RTX 6000 Ada Generation": ("RTX 6000 Ada", 0.96e12),
    "NVIDIA RTX A6000": ("RTX A6000", 0.768e12),
    "NVIDIA GeForce RTX 5090": ("GeForce RTX 5090", 1.792e12),
    "NVIDIA GeForce RTX 4090": ("GeForce RTX 4090", 1.008e12),
    "NVIDIA GeForce RTX 3090": ("GeForce RTX 3090", 0.936e12),
}
BUSES = {
    "B200 SXM": (3996, 7680),
    "H100 SXM": (2619, 5120),
    "A100 80 GB SXM": (1593, 5120),
    "A100 40 GB": (1215, 5120),
    "GeForce RTX 5090": (14001, 512),
    "GeForce RTX 4090": (10501, 384),
    "T4": (5001, 256),
    "V100 SXM2": (877, 4096),
}
"""Memory clock in MHz, as the driver tells it, and width in bits, by which the bandwidths may be reckoned again."""
GEFORCE = [specs for specs in PRODUCTS if specs.name.startswith("GeForce")]


@pytest.mark.parametrize("name", NAMES)
def test_the_drivers_name_tells_the_product(name):
    specs = specs_of(name)
    assert (specs.name, specs.dram_bandwidth_bytes_s) == NAMES[name]


def test_every_product_is_named_once():
    assert {specs.name for specs in PRODUCTS} == {name for name, _ in NAMES.values()}
    names = [name for specs in PRODUCTS for name in specs.driver_names]
    assert [specs_of(name).name for name in names] == [specs.name for specs in PRODUCTS for _ in specs.driver_names]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "NVIDIA",
        "NVIDIA GeForce GTX 1080",
        "NVIDIA H200 NVL",
        "NVIDIA H100 NVL",
        "NVIDIA H200 MIG 1g.18gb",
        "NVIDIA A100-SXM4-80GB MIG 3g.40gb",
        "NVIDIA H100 64GB HBM3",
        "NVIDIA GH200",
        "NVIDIA A10G",
        "NVIDIA A10-24Q",
        "NVIDIA RTX 6000",
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 5090 D",
        "Tesla V100-DGXS-32GB",
    ],
)
def test_one_that_is_not_listed_gets_no_other_ones_peaks(name):
    assert specs_of(name) is None


@pytest.mark.parametrize("specs", PRODUCTS, ids=lambda specs: specs.name)
def test_rates_are_dense_and_fit_each_other(specs):
    """A sparse figure among dense ones, or one by fp16 accumulation, would be off by two."""
    peak = specs.peak_flops
    assert {"fp32", "fp16"} <= peak.keys() <= {"fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8"}
    assert peak["fp16"] == peak.get("bf16", peak["fp16"])
    if "tf32" in peak:
        assert peak["fp16"] / peak["tf32"] == pytest.approx(2, rel=0.02)
    if "fp8" in peak:
        assert peak["fp8"] / peak["fp16"] == pytest.approx(2, rel=0.02)
    if "int8" in peak:
        # GeForce halves the rate of floating-point products that are summed in fp32, not that of whole numbers.
        assert peak["int8"] / peak["fp16"] == pytest.approx(4 if specs in GEFORCE else 2, rel=0.02)
    if "fp64" in peak:
        assert peak["fp64"] / peak["fp32"] == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize("specs", PRODUCTS, ids=lambda specs: specs.name)
def test_fp32_is_what_the_cores_do_at_a_clock_that_there_is(specs):
    """Lanes per SM: 64 at compute capability 7.0, 7.5 and 8.0, else 128; two operations each."""
    lanes = 64 if specs.compute_capability in {(7, 0), (7, 5), (8, 0)} else 128
    clock_hz = specs.peak_flops["fp32"] / (2 * lanes * specs.sm_count)
    assert 1.3e9 < clock_hz < 2.6e9


@pytest.mark.parametrize("name", BUSES)
def test_bandwidths_are_those_of_the_memory(name):
    (specs,) = [specs for specs in PRODUCTS if specs.name == name]
    clock_mhz, bits = BUSES[name]
    assert 2 * clock_mhz * 1e6 * bits / 8 == pytest.approx(specs.dram_bandwidth_bytes_s, rel=0.01)


@pytest.mark.parametrize("specs", PRODUCTS, ids=lambda specs: specs.name)
def test_ridge_points(specs):
    found = ridge_points(specs.dram_bandwidth_bytes_s, specs.peak_flops)
    assert found.keys() == specs.peak_flops.keys()
    assert 9 < found["fp32"] < 120
    assert found["fp16"] * specs.dram_bandwidth_bytes_s == pytest.approx(specs.peak_flops["fp16"])


def test_the_ridge_point_of_an_h200():
    specs = specs_of("NVIDIA H200")
    assert ridge_points(specs.dram_bandwidth_bytes_s, specs.peak_flops)["fp16"] == pytest.approx(206.1, abs=0.1)


@pytest.mark.gpu
def test_the_table_and_the_driver_agree():
    facts = device_facts()
    specs = specs_of(facts.name)
    if specs is None:
        pytest.skip(f"{facts.name} is not listed")
    assert facts.compute_capability == specs.compute_capability
    assert facts.sm_count == specs.sm_count
    assert facts.l2_bytes == pytest.approx(specs.l2_bytes, rel=0.02)
    derived = facts.derived_bandwidth_bytes_s
    assert derived is None or derived == pytest.approx(specs.dram_bandwidth_bytes_s, rel=0.05)

"""What common GPUs can do at most, by their vendor's papers; the figures are in evaluation/profile/specs_table.py."""

from __future__ import annotations

from evaluation.profile.specs_table import PRODUCTS, Specs

__all__ = ["Specs", "ridge_points", "specs_of"]

_BRANDS = {"nvidia", "geforce", "tesla"}
"""Words that older and newer drivers put before the same product's name, or leave out."""


def specs_of(name: str) -> Specs | None:
    """Of the GPU that the driver calls `name`, such as `NVIDIA H100 80GB HBM3`; None for one that is not listed.

    Every word must be the product's: slices (MIG), NVL, laptop and Max-Q parts, `Ti`, `D` and other memory sizes are
    other products, which can do less or more.
    """
    return _BY_WORDS.get(_words(name))


def ridge_points(dram_bandwidth_bytes_s: float, peak_flops: dict[str, float]) -> dict[str, float]:
    """Operations per byte of DRAM traffic, by precision, from which on a kernel is bound by compute."""
    return {precision: peak / dram_bandwidth_bytes_s for precision, peak in peak_flops.items()}


def _words(name: str) -> frozenset[str]:
    return frozenset(name.lower().replace("-", " ").split()) - _BRANDS


_BY_WORDS = {_words(name): specs for specs in PRODUCTS for name in specs.driver_names}

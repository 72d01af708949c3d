"""How large an error may be: measured in what an honest kernel may have at that place, never in absolute terms.

Per element of a float output, the error against the oracle is divided by a *unit*:

    unit = max(roundoff * max(rms of the oracle's row, |oracle|, condition), |reference - oracle|)

`roundoff` is that of the precision asked for, times 0.5 * sqrt(terms) where `terms` numbers are added up in fp32 one
after the other (a random walk of rounding errors). `condition` is by how much the output moves when inputs and weights
move by a relative 1: no algorithm that rounds does better where digits cancel. It and the reference's own error enter
element by element and as the rms of the row. So a row of small numbers is judged by its own size. An output passes
when *every* error is at most ELEMENT_LIMIT units and their rms is at most RMS_LIMIT units.

A row is the last dimension, joined with those before it while it has fewer than MIN_ROW elements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

ELEMENT_LIMIT = 8.0
RMS_LIMIT = 2.0
MIN_ROW = 8
MIN_TERMS = 16
"""Even a pointwise function is a chain of a few rounded steps."""
MAX_TERMS = 2**24
UNKNOWN_TERMS = 4096
LEAST_SCALE = 2.0**-24
"""Of the tensor's rms: the least scale of a row, for rows of zeros in a tensor that is not all zeros."""

ROUNDOFF = {"fp64": 2.0**-53, "fp32": 2.0**-24, "tf32": 2.0**-10, "fp16": 2.0**-12, "bf16": 2.0**-9}
"""By precision asked. TF32's is for truncation, which hardware may do; halves, which round but once, get half of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Yardstick:
    """What the problem itself says about honest errors; the defaults serve where it cannot be asked."""

    terms: int = UNKNOWN_TERMS
    """Numbers that one output element may be the sum of; n equal ones count as n**2."""
    condition: Any = None
    """A nest like the output's: |change of the output| per relative change of inputs and weights."""


def roundoff(precision: str, dtype: torch.dtype, terms: int) -> float:
    """Relative error of one honest output element of `dtype`. Raises KeyError on an unknown precision."""
    asked = ROUNDOFF[precision]
    if torch.finfo(dtype).bits < 32:
        asked = max(asked, torch.finfo(dtype).eps / 4)
    accumulator = min(asked, ROUNDOFF["fp32"])
    return max(0.5 * math.sqrt(min(max(terms, MIN_TERMS), MAX_TERMS)) * accumulator, asked)


def least_unit(dtype: torch.dtype) -> float:
    """What cannot be represented: a subnormal step in fp16, else all subnormals, which hardware may flush to zero."""
    finfo = torch.finfo(dtype)
    return float(finfo.smallest_normal * finfo.eps if dtype is torch.float16 else finfo.smallest_normal)


def describe(precision: str, terms: int) -> str:
    """The rule for the float outputs of a problem, for the record."""
    return (
        f"{precision}: every error <= {ELEMENT_LIMIT:g} units and their rms <= {RMS_LIMIT:g}, where a unit is the "
        f"larger of the reference's own error and {roundoff(precision, torch.float32, terms):.2g} * max(rms of the "
        f"oracle's row, |oracle|, condition), for sums of {terms} terms; whole numbers exact"
    )

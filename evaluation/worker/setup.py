"""What every worker of one evaluation constructs its class with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from evaluation.correctness.oracle import DTYPES, Oracle
from problems.inputs import LoadedProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a class is constructed with: the judge's secret seed, arguments, and weights by name.

    `given` names the weights that do not come from running the reference's constructor under the seed.
    """

    seed: int
    init_inputs: list[Any]
    weights: dict[str, torch.Tensor]
    given: list[str]
    dtype: torch.dtype
    tf32: bool = False
    """Whether TF32 is permitted on a device."""
    compiled: bool = False
    """Whether the module is to be compiled by torch."""

    @classmethod
    def of(cls, loaded: LoadedProblem, oracle: Oracle, seed: int, precision: str) -> Setup:
        """For workers beside an oracle that was made under `seed` at `precision`."""
        return cls(
            seed=seed,
            init_inputs=loaded.init_inputs(),
            weights=oracle.state,
            given=oracle.given,
            dtype=DTYPES[precision],
            tf32=precision == "tf32",
        )

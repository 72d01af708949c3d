"""A problem as data: read from its file without running it, so that planning needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, field

VALUE_SETS = ("nominal", "scaled", "shifted", "distant", "heavy_tailed", "sparse", "integer")
"""Input distributions that a problem's contract may cover; `problems/values.py` says what each one does."""
DIRECTIONS = {"scaled": ("scaled_up", "scaled_down"), "shifted": ("shifted_up", "shifted_down")}
"""Value sets that go two ways, each of which shows shortcuts that the other one hides."""


class ProblemError(Exception):
    """A problem cannot be found, read or used; the message is one sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeDim:
    """A named size that the module leaves open: `jitter` draws multiples of `step` in [low, high]."""

    low: int
    high: int
    step: int = 1

    def sizes(self) -> range:
        """The sizes that may be drawn."""
        return range(-(-self.low // self.step) * self.step, self.high + 1, self.step)


STOCHASTIC_RULES = ("mask", "moments")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stochastic:
    """How the outputs of a reference that draws random numbers are judged; `evaluation/correctness/stochastic.py`."""

    rule: str
    """`mask` or `moments`."""
    drop: float | None = None
    """With `mask`: the probability that an element is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One KernelBench-form file: `Model`, `get_inputs()`, `get_init_inputs()`, unchanged.

    A file may also declare, as literals at module level (read from the syntax tree, never executed):
    `FREE_DIMS = {"B": (4, 32, 1)}`  sizes that may vary; each name is a module-level int that get_inputs reads.
    `VALUE_SETS = ("nominal", "scaled", ...)`  input distributions that the contract covers; default: nominal.
    `STOCHASTIC = {"rule": "mask", "drop": 0.3}` or `{"rule": "moments"}`  the reference draws random numbers.
    """

    name: str
    """`level1/23_virtual_all_reduce_mean`: what the user types."""
    source: str
    source_sha256: str
    origin: str
    """`own`, `kernelbench` or `file`."""
    path: str
    """Where it was read; for messages only, no part of its identity."""
    level: int | None = None
    number: int | None = None
    free_dims: dict[str, FreeDim] = field(default_factory=dict)
    value_sets: tuple[str, ...] = ("nominal",)
    stochastic: Stochastic | None = None

    @property
    def cases(self) -> tuple[str, ...]:
        """What an evaluation draws at least once each: the value sets, those with two directions once in each."""
        return tuple(case for value_set in self.value_sets for case in DIRECTIONS.get(value_set, (value_set,)))

    def draws_total(self, at_least: int) -> int:
        """Draws of one evaluation that is to make `at_least` so many."""
        return max(at_least, len(self.cases))

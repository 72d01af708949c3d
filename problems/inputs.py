"""A problem brought to life: its reference class, and inputs that depend on a seed alone."""

from __future__ import annotations

import hashlib
import random
import threading
import traceback
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from problems import values
from problems.problem import Problem, ProblemError

SHAPES = ("fixed", "jitter")
_INIT_SEED = 0

_global_generators = threading.Lock()
"""Held while a file's code runs: torch's, numpy's and Python's generators belong to the whole process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputDraw:
    """One trial's inputs, as `get_inputs` returns them."""

    dims: dict[str, int]
    """The size that each free dimension has in this draw."""
    inputs: list[Any]


class LoadedProblem:
    """Runs a problem's file. Every method raises ProblemError, in one sentence, for whatever the file does wrong.

    Each draw executes the file anew in a module of its own, so that nothing is carried from one draw to the next. The
    caller's random generators are left as they were; other settings that a file makes process-wide stay made.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        try:
            self._code = compile(problem.source, problem.path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise ProblemError(f"problem {problem.name} is not valid Python: {error}") from error
        with _seeded(_INIT_SEED):
            namespace = self._execute()
        self.reference_class: type[torch.nn.Module] = self._reference_class(namespace)
        self._fixed_dims = self._read_fixed_dims(namespace)
        self._dims_checked = False

    def init_inputs(self) -> list[Any]:
        """The constructor's positional arguments, from `get_init_inputs`; the same ones at every call."""
        with _seeded(_INIT_SEED):
            return self._call(self._execute(), "get_init_inputs")

    def draw(self, seed: int, *, shapes: str = "fixed", value_set: str = "nominal") -> InputDraw:
        """Inputs for one trial, wholly determined by the arguments; any whole number is a seed.

        `fixed` keeps the sizes that the file states. `jitter` draws every free dimension once, before any input.
        `value_set` is one of the problem's value sets or cases; a set with two directions takes one by chance.
        """
        if shapes not in SHAPES:
            raise ValueError(f"unknown shapes {shapes!r}; choose one of {', '.join(SHAPES)}")
        self._require_covered(value_set)
        dims = dict(self._fixed_dims)
        if shapes == "jitter":
            self._check_dims()
            chooser = random.Random(_derived(seed, "dims"))
            dims = {name: chooser.choice(dim.sizes()) for name, dim in self.problem.free_dims.items()}
        with _seeded(seed):
            inputs = self._inputs_at(dims)
        values.apply(value_set, inputs, torch.Generator().manual_seed(_derived(seed, "values")))
        return InputDraw(dims=dims, inputs=inputs)

    def calls(self, seed: int, count: int) -> list[list[Any]]:
        """Inputs of `count` calls, drawn one after the other at the file's own sizes, of its first value set."""
        with _seeded(seed):
            namespace = self._execute()
            batch = [self._call(namespace, "get_inputs") for _ in range(count)]
        generator = torch.Generator().manual_seed(_derived(seed, "values"))
        for inputs in batch:
            values.apply(self.problem.value_sets[0], inputs, generator)
        return batch

    def _execute(self) -> dict[str, Any]:
        """The file's globals after running it top to bottom."""
        # Not in sys.modules: no draw can be found, or changed, through a name.
        module = types.ModuleType(f"_problem_{self.problem.source_sha256[:12]}")
        module.__file__ = self.problem.path
        try:
            exec(self._code, module.__dict__)
        except (Exception, SystemExit) as error:
            raise self._failed("the file", error) from error
        return module.__dict__

    def _inputs_at(self, dims: dict[str, int]) -> list[Any]:
        namespace = self._execute()
        namespace.update(dims)
        return self._call(namespace, "get_inputs")

    def _call(self, namespace: dict[str, Any], function: str) -> list[Any]:
        try:
            result = namespace[function]()
        except (Exception, SystemExit) as error:
            raise self._failed(f"{function}()", error) from error
        if not isinstance(result, list):
            raise ProblemError(
                f"problem {self.problem.name}: {function}() must return a list, not a {type(result).__name__}"
            )
        return result

    def _reference_class(self, namespace: dict[str, Any]) -> type[torch.nn.Module]:
        model = namespace.get("Model")
        if not isinstance(model, type) or not issubclass(model, torch.nn.Module):
            raise ProblemError(f"problem {self.problem.name}: Model must be a subclass of torch.nn.Module")
        return model

    def _read_fixed_dims(self, namespace: dict[str, Any]) -> dict[str, int]:
        fixed = {}
        for name in self.problem.free_dims:
            size = namespace.get(name)
            if type(size) is not int:
                raise ProblemError(f"problem {self.problem.name}: FREE_DIMS names {name}, which is no module-level int")
            fixed[name] = size
        return fixed

    def _require_covered(self, value_set: str) -> None:
        if value_set not in self.problem.value_sets + self.problem.cases:
            raise ProblemError(
                f"problem {self.problem.name} does not cover value set {value_set!r}; "
                f"its VALUE_SETS are {', '.join(self.problem.value_sets)}"
            )

    def _check_dims(self) -> None:
        """Once per problem: there are free dimensions, and each one changes the shape of some input."""
        if self._dims_checked:
            return
        if not self.problem.free_dims:
            raise ProblemError(
                f"problem {self.problem.name} declares no FREE_DIMS, so its sizes cannot be jittered; use shapes=fixed"
            )
        smallest = {name: dim.sizes()[0] for name, dim in self.problem.free_dims.items()}
        with _seeded(_INIT_SEED):
            base = _shapes_of(self._inputs_at(smallest))
            for name, dim in self.problem.free_dims.items():
                if len(dim.sizes()) > 1 and _shapes_of(self._inputs_at({**smallest, name: dim.sizes()[1]})) == base:
                    raise ProblemError(
                        f"problem {self.problem.name}: FREE_DIMS names {name}, but get_inputs() gives the same shapes "
                        f"whatever {name} is"
                    )
        self._dims_checked = True

    def _failed(self, what: str, error: BaseException) -> ProblemError:
        frames = traceback.walk_tb(error.__traceback__)
        lines = [line for frame, line in frames if frame.f_code.co_filename == self.problem.path]
        where = f" in line {lines[-1]}" if lines else ""
        detail = " ".join(str(error).split())[:300]
        return ProblemError(f"problem {self.problem.name}: {what} raised {type(error).__name__}{where}: {detail}")


def _shapes_of(inputs: list[Any]) -> list[torch.Size]:
    return [tensor.shape for tensor in values.tensors(inputs)]


def _derived(seed: int, use: str) -> int:
    """32 bits that depend on all of `seed`: numpy takes no more, and torch on the CPU ignores what is above."""
    return int.from_bytes(hashlib.sha256(f"{use} {seed}".encode()).digest()[:4], "big")


def _seed_torch(seed: int) -> None:
    """What torch.manual_seed does for the devices in use. That one formats a stack trace at every call without CUDA."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(seed)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed every global generator that a problem's file may use, and give them back as they were."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    with _global_generators, torch.random.fork_rng(devices=devices):
        python_state, numpy_state = random.getstate(), np.random.get_state()
        _seed_torch(_derived(seed, "torch"))
        random.seed(_derived(seed, "python"))
        np.random.seed(_derived(seed, "numpy"))
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)

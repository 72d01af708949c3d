"""A problem brought to life: its reference class, and inputs that depend on a seed alone."""

from __future__ import annotations

import hashlib
import random
import threading
import traceback
import types
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from problems import values
from problems.problem import Problem, ProblemError

SHAPES = ("fixed", "jitter")
_INIT_SEED = 0
_OF_THE_DEVICE = (torch.OutOfMemoryError, torch.AcceleratorError)

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

    Inputs are on `device` whatever the file does. They are made there where the file allows that, else on the CPU and
    moved. torch.OutOfMemoryError and torch.AcceleratorError of an accelerator are passed on as they are: its memory is
    shared with other processes, and after the other one nothing more can be done in this one.
    """

    def __init__(self, problem: Problem, device: str | torch.device = "cpu") -> None:
        """`device` must be there: torch raises what it will where it is not."""
        self.problem = problem
        # An empty tensor knows its device by number, and seeding is of the devices in use.
        self.device = torch.empty(0, device=device).device
        try:
            self._code = compile(problem.source, problem.path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise ProblemError(f"problem {problem.name} is not valid Python: {error}") from error
        with _seeded(_INIT_SEED):
            namespace = self._execute()
        self.reference_class: type[torch.nn.Module] = self._reference_class(namespace)
        self._fixed_dims = self._read_fixed_dims(namespace)
        self._dims_checked = False
        self._made_on_device = self.device.type != "cpu" and self._can_be_made_on_device()

    def init_inputs(self) -> list[Any]:
        """The constructor's positional arguments, from `get_init_inputs`, on the CPU; the same ones at every call."""
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
        with _seeded(seed), self._making():
            namespace = self._execute()
            batch = [_moved(self._call(namespace, "get_inputs"), self.device) for _ in range(count)]
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
        except _OF_THE_DEVICE:
            raise
        except (Exception, SystemExit) as error:
            raise self._failed("the file", error) from error
        return module.__dict__

    def _inputs_at(self, dims: dict[str, int]) -> list[Any]:
        with self._making():
            namespace = self._execute()
            namespace.update(dims)
            inputs: list[Any] = _moved(self._call(namespace, "get_inputs"), self.device)
        return inputs

    def _making(self) -> AbstractContextManager[Any]:
        """Where tensors are that the file makes without naming a device."""
        return self.device if self._made_on_device else nullcontext()

    def _can_be_made_on_device(self) -> bool:
        """Not where the file names a CPU generator, say, or adds numpy's numbers to torch's."""
        try:
            with _seeded(_INIT_SEED), self.device:
                self._call(self._execute(), "get_inputs")
        except ProblemError:
            return False
        return True

    def _call(self, namespace: dict[str, Any], function: str) -> list[Any]:
        try:
            result = namespace[function]()
        except _OF_THE_DEVICE:
            raise
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


def _moved(value: Any, device: torch.device) -> Any:
    """The same nest with its tensors on `device`; one that is given twice stays one. Named tuples become plain ones."""
    elsewhere = {id(tensor): tensor for tensor in values.tensors(value) if tensor.device != device}
    if not elsewhere:
        return value
    there = {key: tensor.to(device) for key, tensor in elsewhere.items()}

    def moved(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: moved(part) for key, part in item.items()}
        if isinstance(item, (list, tuple)):
            return (list if isinstance(item, list) else tuple)(moved(part) for part in item)
        return there.get(id(item), item)

    return moved(value)


@contextmanager
def seeded_torch(seed: int) -> Iterator[None]:
    """Seed torch's global generators, those of devices in use too, and give them back as they were."""
    in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if in_use else ()):
        # What torch.manual_seed does. That one formats a stack trace at every call where CUDA is not in use.
        torch.default_generator.manual_seed(seed)
        if in_use:
            torch.cuda.manual_seed_all(seed)
        yield


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed every global generator that a problem's file may use, and give them back as they were."""
    with _global_generators, seeded_torch(_derived(seed, "torch")):
        python_state, numpy_state = random.getstate(), np.random.get_state()
        random.seed(_derived(seed, "python"))
        np.random.seed(_derived(seed, "numpy"))
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)

"""The reference as a judge holds it: secret weights, its answer at its own precision, and the answer in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from evaluation.correctness.nested import map_tensors, tensors
from evaluation.correctness.surroundings import buffers_kept, default_dtype, strict_fp32, weights_kept
from evaluation.correctness.tolerance import UNKNOWN_TERMS, Yardstick
from evaluation.correctness.weights import randomise_weights
from problems.inputs import LoadedProblem, seeded_torch
from problems.problem import ProblemError
from problems.values import blocks, drawing_on

DTYPES = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "tf32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}
_STEP = 2.0**-40
"""Relative step of the condition estimate: far above float64's roundoff, and too small to reach a kink by chance."""
_CONDITION_SAMPLES = 3
_TERM_PROBES = 2
"""Elements per output whose inputs are counted."""
_SPARE_BYTES = 2**30
"""That torch may keep on the device: giving memory back takes milliseconds, and so does getting it again."""
_OF_THE_DEVICE = (torch.OutOfMemoryError, torch.AcceleratorError)


class Oracle:
    """One problem's reference under one secret seed.

    Arguments of its methods are left as they are, and the module's buffers are put back after every call, so that no
    answer depends on the calls before it. Raises ProblemError when the reference fails. Not thread-safe.

    The module is constructed and gets its weights on the CPU, then moves to the problem's device, where all answers
    are. Bytes that are in use there at most, beside the weights (three times their size) and what the reference itself
    takes on the way, with I and O the sizes of inputs and output in float64 and N that of the native answer:

        oracle     I + O, then 2 O
        native     N's inputs + N, then 2 N
        condition  I + 2 O, then 3 O, where the oracle's answer is held by the caller
        terms      4 I + 2 O and what autograd keeps

    Where the device has less, the oracle falls to float32, and condition and terms are unknown. What must fit raises
    torch.OutOfMemoryError as it comes, since others use that memory too; so does torch.AcceleratorError pass, after
    which this process can do nothing more there.
    """

    def __init__(self, loaded: LoadedProblem, seed: int, precision: str, *, randomise: bool = True) -> None:
        """`randomise=False` keeps the weights as the constructor left them under `seed`."""
        self.name = loaded.problem.name
        self.device = loaded.device
        self._seed = seed
        self._dtype = DTYPES[precision]
        self._native = self._construct(loaded)
        if self._dtype is not torch.float32:
            self._native.to(dtype=self._dtype)
        self.given = randomise_weights(self._native, seed) if randomise else []
        """Names of the weights that do not follow from running the constructor under `seed`."""
        # Built once more: a deep copy refuses modules that hold tensors with a history.
        self._exact = self._construct(loaded)
        self._exact.load_state_dict(self._native.state_dict())
        self._native.to(self.device)
        self._exact.to(device=self.device, dtype=torch.float64)
        self.oracle_dtype = torch.float64
        """float32 once an operator has refused float64, or the device's memory was too small for it."""

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """Copies of all weights and persistent buffers at the problem's precision, on the CPU."""
        state = self._native.state_dict()
        return {name: value.detach().to(device="cpu", copy=True) for name, value in state.items()}

    def at_precision(self, inputs: list[Any]) -> list[Any]:
        """A copy of `inputs` as both arms get them: float32 becomes the precision's dtype, the rest stays."""
        return [map_tensors(lambda tensor: self._rounded(tensor, copy=True), item) for item in inputs]

    def native(self, inputs: list[Any]) -> Any:
        """The reference's output at the problem's own precision, TF32 off."""
        return self._run_native(self.at_precision(inputs))

    def oracle(self, inputs: list[Any]) -> Any:
        """The reference's output in `oracle_dtype`, from inputs and weights rounded to the problem's precision."""
        return self._run_exact(inputs)

    def mutates_inputs(self, inputs: list[Any]) -> frozenset[int]:
        """Positions of the inputs that the reference itself changes."""
        before, after = self.at_precision(inputs), self.at_precision(inputs)
        self._run_native(after)
        return frozenset(
            index
            for index, (old, new) in enumerate(zip(before, after, strict=True))
            if not all(_same_bits(*pair) for pair in zip(tensors(old), tensors(new), strict=True))
        )

    def yardstick(self, inputs: list[Any], expected: Any) -> Yardstick:
        """How far honest answers may lie from `expected`, which is `oracle(inputs)`.

        Costs a few runs in float64. Where the oracle is float32 or memory is short no condition can be had, and where
        the reference cannot be differentiated the number of terms stays at its default.
        """
        if self.oracle_dtype is not torch.float64:
            return Yardstick()
        return Yardstick(terms=self._terms(inputs), condition=self._condition(inputs, expected))

    def _construct(self, loaded: LoadedProblem) -> nn.Module:
        arguments = loaded.init_inputs()
        with seeded_torch(self._seed):
            try:
                module = loaded.reference_class(*arguments)
            except _OF_THE_DEVICE:
                raise
            except Exception as error:
                raise self._failed("constructor", error) from error
        return module.requires_grad_(False)

    def _rounded(self, tensor: torch.Tensor, *, copy: bool = False) -> torch.Tensor:
        wanted = self._dtype if tensor.dtype is torch.float32 else tensor.dtype
        return tensor.detach().to(device=self.device, dtype=wanted, copy=copy)

    def _exact_inputs(self, inputs: list[Any]) -> list[Any]:
        """Copies, rounded to the problem's precision, then as wide as the oracle."""

        def widened(tensor: torch.Tensor) -> torch.Tensor:
            wide = tensor.dtype
            if tensor.is_complex():
                wide = self.oracle_dtype.to_complex()
            elif tensor.is_floating_point():
                wide = self.oracle_dtype
            return self._rounded(tensor).to(wide, copy=True)

        return [map_tensors(widened, item) for item in inputs]

    def _run_native(self, inputs: list[Any]) -> Any:
        try:
            with torch.no_grad(), strict_fp32(), buffers_kept(self._native):
                return _owned(self._native(*inputs))
        except _OF_THE_DEVICE:
            raise
        except Exception as error:
            raise self._failed("forward()", error) from error

    def _run_exact(self, inputs: list[Any]) -> Any:
        if self.oracle_dtype is torch.float64:
            try:
                return self._forward_exact(self._exact_inputs(inputs))
            except (RuntimeError, NotImplementedError):
                # The operator may know no float64, the file may name float32, or memory may be short. A fault of the
                # file fails again below.
                self.oracle_dtype = torch.float32
                self._exact.to(torch.float32)
            self.give_back_memory()
        try:
            return self._forward_exact(self._exact_inputs(inputs))
        except _OF_THE_DEVICE:
            raise
        except Exception as error:
            raise self._failed("forward()", error) from error

    def _forward_exact(self, inputs: list[Any]) -> Any:
        with torch.no_grad(), strict_fp32(), buffers_kept(self._exact), default_dtype(self.oracle_dtype):
            outputs = self._exact(*inputs)
            # Nobody else holds them; the copies need their place.
            del inputs
            return _owned(outputs)

    def give_back_memory(self) -> None:
        """Let others have what torch keeps on the device of tensors that are gone, where that is much."""
        if self.device.type == "cuda":
            spare_bytes = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
            if spare_bytes > _SPARE_BYTES:
                torch.cuda.empty_cache()

    def perturbed(self, inputs: list[Any], change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
        """The oracle's output had its float inputs, weights and buffers been what `change` makes of copies of them."""

        def changed(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.is_complex():
                return torch.view_as_complex(change(torch.view_as_real(tensor)))
            return change(tensor) if tensor.is_floating_point() else tensor

        with weights_kept(self._exact), torch.no_grad():
            for weight in (*self._exact.parameters(), *self._exact.buffers()):
                weight.copy_(changed(weight))
            return self._forward_exact([map_tensors(changed, item) for item in self._exact_inputs(inputs)])

    def _condition(self, inputs: list[Any], expected: Any) -> Any:
        """|change of the output| / relative change, root mean square over random changes; None where memory is short.

        They are normal, not of one size: two of one size cancel too often where an output depends on a difference.
        """
        generator = torch.Generator().manual_seed(self._seed)

        def shake(tensor: torch.Tensor) -> torch.Tensor:
            for part in blocks(tensor):
                drawn = torch.randn(part.shape, generator=drawing_on(part.device, generator), device=part.device)
                part *= drawn.to(part).mul_(_STEP).add_(1)
            return tensor

        before = [_parts(leaf) for leaf in tensors(expected)]
        try:
            total = [torch.zeros_like(leaf, dtype=torch.float64) for leaf in before]
            for _ in range(_CONDITION_SAMPLES):
                _add_squares(total, before, self.perturbed(inputs, shake))
        except torch.OutOfMemoryError:
            return None
        roots = iter([square.sqrt_() for square in total])

        def condition(leaf: torch.Tensor) -> torch.Tensor:
            root = next(roots)
            return torch.view_as_complex(root) if leaf.is_complex() else root

        return map_tensors(condition, expected)

    def _terms(self, inputs: list[Any]) -> int:
        """Over a few elements of the outputs, the most numbers that one of them is the sum of, repeats squared."""
        variables: list[torch.Tensor] = []

        def track(tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.is_floating_point():
                return tensor
            variables.append(tensor.requires_grad_())
            # No leaf: the reference may change its inputs in place.
            return tensor.clone()

        terms = [0]
        try:
            tracked = [map_tensors(track, item) for item in self._exact_inputs(inputs)]
            with torch.enable_grad(), buffers_kept(self._exact), default_dtype(torch.float64):
                outputs = [leaf for leaf in tensors(self._exact(*tracked)) if leaf.requires_grad and leaf.numel()]
            for flat in (output.flatten() for output in outputs):
                for probe in range(_TERM_PROBES):
                    element = flat[(2 * probe + 1) * flat.numel() // (2 * _TERM_PROBES)]
                    slopes = torch.autograd.grad(element, variables, retain_graph=True, allow_unused=True)
                    pairs = zip(slopes, variables, strict=True)
                    terms += [_effective_terms(slope, value) for slope, value in pairs if slope is not None]
        except (RuntimeError, NotImplementedError):
            return UNKNOWN_TERMS
        return max(terms) or UNKNOWN_TERMS

    def _failed(self, what: str, error: Exception) -> ProblemError:
        detail = " ".join(str(error).split())[:300]
        return ProblemError(f"problem {self.name}: the reference's {what} raised {type(error).__name__}: {detail}")


def _effective_terms(slope: torch.Tensor, value: torch.Tensor) -> int:
    """How many summands `value` gives to an output, by the slope of that output in it.

    n different ones count as n. Equal ones have equal rounding errors, which grow like their number, not its root: with
    all n equal, n**2. In between it is n times the mean size of a summand's group of equals.
    """
    used = slope != 0
    # One number per summand, equal just where slope and value are.
    summands = slope[used].float().double() * math.pi + value[used].detach()
    counts = torch.unique(summands, return_counts=True)[1].double()
    return int(counts.square().sum())


def _add_squares(total: list[torch.Tensor], before: list[torch.Tensor], moved: Any) -> None:
    """To each mean of squares over samples those of one sample's change, where that is a number."""
    for leaves in zip(total, before, map(_parts, tensors(moved)), strict=True):
        for square, old, new in zip(*map(blocks, leaves), strict=True):
            change = (new.double() - old.double()) / _STEP
            square += torch.where(change.isfinite(), change, 0.0).square() / _CONDITION_SAMPLES


def _parts(tensor: torch.Tensor) -> torch.Tensor:
    """Of a complex tensor the real and imaginary parts, in one more dimension."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _owned(outputs: Any) -> Any:
    """Copies that share no memory with weights, inputs or each other."""
    return map_tensors(lambda tensor: tensor.detach().clone(), outputs)


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equality under which NaN equals itself."""
    return a.shape == b.shape and all(
        bool(((one == other) | ((one != one) & (other != other))).all())
        for one, other in zip(blocks(a), blocks(b), strict=True)
    )

"""What KernelBench would say of one output: its rule beside ours, so that results can be compared with published ones.

Its check (src/kernelbench/eval.py, run_and_check_correctness) asks for one tensor with the reference's shape, then for
torch.allclose(reference, candidate) with one tolerance, which follows from the precision asked for, as absolute and as
relative one. Whatever raises on the way is a failure: outputs that are no tensors, other dtypes, dtypes that allclose
does not know. NaN equals nothing. It knows fp32, fp16 and bf16.
"""

from __future__ import annotations

from typing import Any

import torch

TOLERANCE = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 1e-2}
_BLOCK_ELEMENTS = {"cpu": 2**17, "cuda": 2**24}
"""Compared at a time, by device, so that little memory is needed; the answer is the same."""


def kernelbench_verdict(candidate: Any, native: Any, precision: str) -> bool | None:
    """Whether `candidate` passes beside the reference's own `native`; None at a precision that KernelBench lacks."""
    tolerance = TOLERANCE.get(precision)
    if tolerance is None:
        return None
    if not isinstance(candidate, torch.Tensor) or not isinstance(native, torch.Tensor):
        return False
    if candidate.shape != native.shape or candidate.dtype is not native.dtype or candidate.device != native.device:
        return False
    ours, theirs = native.flatten(), candidate.flatten()
    step = _BLOCK_ELEMENTS[native.device.type]
    try:
        for start in range(0, len(ours), step):
            block = slice(start, start + step)
            # The candidate comes second, so that the relative tolerance refers to its magnitude.
            if not torch.allclose(ours[block], theirs[block], atol=tolerance, rtol=tolerance):
                return False
    except NotImplementedError:
        return False
    return True

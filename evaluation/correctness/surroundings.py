"""What holds around a run of the reference: nothing stays changed, and arithmetic is as precise as it says."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


@contextmanager
def buffers_kept(module: nn.Module) -> Iterator[None]:
    """Undo what the calls inside do to the module's buffers."""
    saved = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        for buffer, value in saved:
            buffer.copy_(value)


@contextmanager
def weights_kept(module: nn.Module) -> Iterator[None]:
    """Undo what happens inside to the module's parameters and buffers."""
    saved = [(parameter, parameter.clone()) for parameter in module.parameters()]
    try:
        with buffers_kept(module):
            yield
    finally:
        for parameter, value in saved:
            parameter.copy_(value)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """The dtype of tensors that the reference makes without naming one."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def strict_fp32() -> Iterator[None]:
    """No TF32 inside, whichever of torch's two interfaces a file has used outside."""
    cudnn: Any = torch.backends.cudnn
    operators: tuple[Any, ...] = (torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn)
    before = [operator.fp32_precision for operator in operators]
    _allow_tf32(matmul=False, cudnn=False)
    for operator in operators:
        operator.fp32_precision = "ieee"
    try:
        yield
    finally:
        _allow_tf32(matmul=before[0] == "tf32", cudnn=before[1] == "tf32")
        for operator, precision in zip(operators, before, strict=True):
            operator.fp32_precision = precision


def _allow_tf32(*, matmul: bool, cudnn: bool) -> None:
    """Torch's older switches. They set the newer ones too, and operators refuse to run where the two disagree."""
    with warnings.catch_warnings():
        # Some versions say that these are on their way out.
        warnings.simplefilter("ignore")
        torch.backends.cuda.matmul.allow_tf32 = matmul
        torch.backends.cudnn.allow_tf32 = cudnn

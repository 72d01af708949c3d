"""Nested values to bytes and back without pickle: a preorder descriptor that says where the tensors lie.

Values are None, bool, int (64 bits), float, str, list, tuple, dict with str keys, and exact strided torch.Tensors.
What comes from a candidate is parsed with bounds on depth, nodes, text, sizes and offsets.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

import torch

from evaluation.correctness.nested import Foreign
from evaluation.worker.buffers import RegionFull, Source, Target
from evaluation.worker.wire import WireError

DTYPES = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.uint16, torch.uint32, torch.uint64,
)  # fmt: skip
_CODES = {dtype: code for code, dtype in enumerate(DTYPES)}
_MAX_DEPTH, _MAX_NODES, _MAX_TEXT_BYTES, _MAX_DIMENSIONS = 32, 100_000, 8 * 2**20, 32
_MAX_TYPE_NAME = 80
_MOST_ELEMENTS = 2**59
"""Above, torch cannot count the bytes of a tensor, not even of one that is empty in another dimension."""
PLACE_AT = struct.calcsize("<cBB")
"""Where in the description of one tensor its place stands, as eight bytes."""


class NotCarried(Exception):
    """A value that the codec does not carry; the text is its type's name."""


def encode(value: Any, target: Target | None = None, strict: bool = False) -> bytes:
    """Describe `value`; its tensors are put into `target`, in order, all their elements.

    What cannot be carried becomes Foreign, or raises NotCarried if `strict`. Raises RegionFull if the tensors do not
    fit.
    """
    parts: list[bytes] = []
    _encode(value, target, parts, 0)
    if strict and (foreign := parts.index(b"F") + 1 if b"F" in parts else 0):
        raise NotCarried(parts[foreign][4:].decode())
    return b"".join(parts)


def _encode(value: Any, target: Target | None, parts: list[bytes], depth: int) -> None:
    kind = type(value)
    if value is None:
        parts.append(b"N")
    elif kind is bool:
        parts.append(b"B\x01" if value else b"B\x00")
    elif kind is int and -(2**63) <= value < 2**63:
        parts.append(struct.pack("<cq", b"I", value))
    elif kind is float:
        parts.append(struct.pack("<cd", b"D", value))
    elif kind is str:
        parts += (b"S", _text(value))
    elif isinstance(value, (list, tuple)) and depth < _MAX_DEPTH:
        # Named tuples, which torch's own operators return, count as tuples.
        parts.append(struct.pack("<cI", b"L" if isinstance(value, list) else b"T", len(value)))
        for item in value:
            _encode(item, target, parts, depth + 1)
    elif isinstance(value, dict) and depth < _MAX_DEPTH and all(type(key) is str for key in value):
        parts.append(struct.pack("<cI", b"M", len(value)))
        for key, item in value.items():
            parts.append(_text(key))
            _encode(item, target, parts, depth + 1)
    elif kind is torch.Tensor and target is not None and _carried(value, target):
        parts.append(_encode_tensor(value, target))
    else:
        parts += (b"F", _text(_foreign_name(value)[:_MAX_TYPE_NAME]))


def _foreign_name(value: Any) -> str:
    if type(value) is Foreign:
        return str(value.type_name)
    if type(value) is torch.Tensor:
        return f"tensor of {value.dtype}, {value.layout}, on {value.device.type}"
    return type(value).__name__


def _text(text: str) -> bytes:
    data = text.encode(errors="replace")
    return struct.pack("<I", len(data)) + data


def _carried(tensor: torch.Tensor, target: Target) -> bool:
    fits = tensor.layout is torch.strided and tensor.dtype in _CODES
    return fits and tensor.device.type == target.device_type


def _span(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements from the first to the last that a strided tensor touches."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def _encode_tensor(tensor: torch.Tensor, target: Target) -> bytes:
    plain = tensor.detach()
    span = plain.numel()
    dense = plain.is_contiguous() or _span(plain.shape, plain.stride()) == span
    if not dense or plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg().contiguous()
    shape, strides = tuple(plain.shape), plain.stride()
    place = target.put(plain.as_strided((span,), (1,), plain.storage_offset()))
    return struct.pack(f"<cBBQ{2 * len(shape)}q", b"X", _CODES[plain.dtype], len(shape), place, *shape, *strides)


def decode(data: bytes, source: Source | None = None) -> Any:
    """Rebuild a value; its tensors are those of `source`.

    Raises WireError on anything malformed or out of bounds.
    """
    reader = _Reader(data, source)
    value = reader.value(0)
    reader.finish()
    return value


class _Reader:
    def __init__(self, data: bytes, source: Source | None) -> None:
        self._data = data
        self._source = source
        self._at = 0
        self._nodes = 0

    def finish(self) -> None:
        if self._at != len(self._data):
            raise WireError("bytes follow the end of a value")

    def _take(self, layout: str) -> tuple[Any, ...]:
        size = struct.calcsize(layout)
        if self._at + size > len(self._data):
            raise WireError("a value is cut short")
        taken = struct.unpack_from(layout, self._data, self._at)
        self._at += size
        return taken

    def _text(self) -> str:
        (length,) = self._take("<I")
        if length > _MAX_TEXT_BYTES or self._at + length > len(self._data):
            raise WireError("a text is too long")
        raw = self._data[self._at : self._at + length]
        self._at += length
        return raw.decode(errors="replace")

    def value(self, depth: int) -> Any:
        self._nodes += 1
        if depth > _MAX_DEPTH or self._nodes > _MAX_NODES:
            raise WireError("a value is nested too deep or has too many parts")
        (tag,) = self._take("<c")
        if tag == b"N":
            return None
        if tag == b"B":
            return self._take("<B")[0] != 0
        if tag == b"I":
            return self._take("<q")[0]
        if tag == b"D":
            return self._take("<d")[0]
        if tag == b"S":
            return self._text()
        if tag == b"F":
            return Foreign(self._text()[:_MAX_TYPE_NAME])
        if tag == b"X":
            return self._tensor()
        return self._container(tag, depth)

    def _container(self, tag: bytes, depth: int) -> Any:
        if tag not in (b"L", b"T", b"M"):
            raise WireError("a value has an unknown tag")
        (count,) = self._take("<I")
        if count > _MAX_NODES:
            raise WireError("a value has too many parts")
        if tag == b"M":
            return {self._text(): self.value(depth + 1) for _ in range(count)}
        items = [self.value(depth + 1) for _ in range(count)]
        return items if tag == b"L" else tuple(items)

    def _tensor(self) -> torch.Tensor | Foreign:
        layout, place = self.layout()
        if self._source is None:
            raise WireError("a tensor is not where one may be")
        return layout.tensor(self._source, place)

    def layout(self) -> tuple[Layout, int]:
        """Of a tensor whose tag was read, and its place."""
        code, dimensions, place = self._take("<BBQ")
        if code >= len(DTYPES) or dimensions > _MAX_DIMENSIONS:
            raise WireError("a tensor is of an unknown type or has too many dimensions")
        numbers = self._take(f"<{2 * dimensions}q")
        shape, strides = numbers[:dimensions], numbers[dimensions:]
        if numbers and (min(numbers) < 0 or max(numbers) >= 2**48):
            raise WireError("a tensor has an impossible size or stride")
        if math.prod(size or 1 for size in shape) >= _MOST_ELEMENTS:
            raise WireError("a tensor has too many elements")
        span = _span(shape, strides)
        if span != math.prod(shape):
            # All that `encode` describes are dense: as large where they are copied to as where they lie.
            raise WireError("a tensor is not dense")
        return Layout(shape, strides, span, DTYPES[code]), place


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor lies in memory, wherever that is."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    span: int
    """Elements from the first to the last that is touched."""
    dtype: torch.dtype

    def tensor(self, source: Source, place: int) -> torch.Tensor | Foreign:
        """The tensor at `place`. Raises WireError when there is none."""
        if self.span == 0:
            return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=source.device_type)
        try:
            return source.take(place, self.span, self.dtype).as_strided(self.shape, self.strides)
        except RegionFull:
            return Foreign("something larger than the reference's output")


def layout_of(description: bytes) -> Layout | None:
    """The layout, if all that is described is one tensor. Raises WireError on anything malformed."""
    if description[:1] != b"X":
        return None
    reader = _Reader(description[1:], None)
    layout, _ = reader.layout()
    reader.finish()
    return layout

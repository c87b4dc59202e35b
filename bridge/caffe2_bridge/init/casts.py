"""Casts and sums of constants: from an operator's arguments and its inputs to a tensor that is computed later."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from caffe2_bridge.init.fill import Filled, FillError
from caffe2_bridge.netdef.data_type import data_type
from caffe2_bridge.netdef.parameters import DTYPES, Parameter
from caffe2_bridge.netdef.views import Args


def sum_of(sources: Sequence[Parameter]) -> Filled:
    """Return the sum of tensors of one shape and type, in order: init nets store doubles as sums of floats."""
    if len({(source.dtype, source.shape) for source in sources}) != 1:
        raise FillError("the inputs of Sum must have one shape and element type")
    first = sources[0]
    if first.dtype.kind not in "fi" or first.dtype.itemsize < 4 or first.scale is not None:
        raise FillError(f"Sum has no {first.dtype.name} version")

    def make() -> Any:
        total = first.load()
        with np.errstate(over="ignore", invalid="ignore"):
            for source in sources[1:]:
                total = total + source.load()
        return total

    return Filled(first.dtype, first.shape, make)


def _cast(args: Args, source: Parameter) -> Filled:
    number = data_type(args, "to")
    dtype = DTYPES.get(number)
    if dtype is None or source.dtype.kind == "O" or source.scale is not None:
        kind = "a quantized tensor" if source.scale is not None else source.dtype.name
        raise FillError(f"input {source.name!r} is {kind}, which cannot be cast to data type {number}")
    return _as_text(source) if dtype.kind == "O" else _as(source, dtype)


def _as_text(source: Parameter) -> Filled:
    """Convert numbers to strings as C++'s to_string does: floats with six decimals."""
    pattern = "%f" if source.dtype.kind == "f" else "%d"

    def make() -> Any:
        out = np.empty(source.size, object)
        out[:] = [(pattern % value).encode() for value in source.load().reshape(-1)]
        return out

    return Filled(np.dtype(object), source.shape, make)


def _float_to_half(args: Args, source: Parameter) -> Filled:
    clip = bool(args.integer("clip", default=0))
    if source.dtype != np.float32:
        raise FillError(f"input {source.name!r} must be float32, not {source.dtype.name}")
    largest = float(np.finfo(np.float16).max)

    def make() -> Any:
        values = source.load()
        with np.errstate(over="ignore"):
            return (np.clip(values, -largest, largest) if clip else values).astype(np.float16)

    return Filled(np.dtype(np.float16), source.shape, make)


def _half_to_float(_: Args, source: Parameter) -> Filled:
    if source.dtype != np.float16:
        raise FillError(f"input {source.name!r} must be float16, not {source.dtype.name}")
    return _as(source, np.dtype(np.float32))


def _as(source: Parameter, dtype: np.dtype[Any]) -> Filled:
    def make() -> Any:
        with np.errstate(invalid="ignore", over="ignore"):
            values = source.load()
            if values.dtype.kind == "f" and dtype.kind in "iu":
                values = values.astype(np.int64)  # truncate, then wrap around, as C does
            return values.astype(dtype)

    return Filled(dtype, source.shape, make)


CASTS: Final = MappingProxyType({"Cast": _cast, "FloatToHalf": _float_to_half, "HalfToFloat": _half_to_float})

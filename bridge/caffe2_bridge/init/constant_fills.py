"""Fills with given or computed values."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from caffe2_bridge import wire
from caffe2_bridge.init.fill import (
    Fill,
    Filled,
    FillError,
    FillOp,
    Values,
    checked_shape,
    fill_dtype,
    fill_shape,
    require_range,
)
from caffe2_bridge.netdef.parameters import DTYPES, Array
from caffe2_bridge.netdef.views import ArgumentError
from caffe2_bridge.proto.caffe2_pb2 import TensorProto

_FLOAT: Final = np.dtype(np.float32)
_HALF: Final = np.dtype(np.float16)
_KINDS: Final = MappingProxyType({wire.FLOATS: "floats", wire.INTS: "ints", wire.STRINGS: "strings"})

# The types that the dtype arguments of GivenTensorFill and ConstantFill accept.
_GIVEN: Final = ("FLOAT", "DOUBLE", "BOOL", "INT16", "INT32", "INT64", "STRING")
_CONSTANT: Final = ("FLOAT", "DOUBLE", "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "STRING")


def _kind(dtype: np.dtype[Any]) -> int:
    """Return the field of the ``values`` argument that holds elements of a dtype."""
    if dtype.kind == "f":
        return wire.FLOATS
    return wire.STRINGS if dtype.kind == "O" else wire.INTS


def _given(op: FillOp, dtype: np.dtype[Any], kind: int, *, required: bool = True) -> Filled:
    """Fill with the elements of ``values``."""
    shape = fill_shape(op)
    values = op.values
    if values is None:
        if required:
            raise FillError("argument 'values' is missing")
        if 0 not in shape:
            raise FillError(f"shape {list(shape)} has {math.prod(shape)} elements, and 'values' is missing")
        return Filled(dtype, shape, lambda: np.empty(0, dtype))
    count = values.count(kind)
    size = math.prod(shape)
    if count != size:
        reason = f"shape {list(shape)} has {size} elements, but 'values' has {count} {_KINDS[kind]}"
        other = next((name for k, name in _KINDS.items() if k != kind and not count and values.count(k)), None)
        raise FillError(f"{reason} (it has {other})" if other else reason)
    if kind == wire.INTS and dtype.kind != "b" and dtype.itemsize < 8:
        require_range(values(kind, np.dtype(np.int64)), dtype)
    return Filled(dtype, shape, lambda: values(kind, dtype))


def given_tensor(op: FillOp) -> Filled:
    """``GivenTensorFill(; values, shape, dtype=FLOAT) -> Y``."""
    dtype = _FLOAT
    if "dtype" in op.args:
        dtype = _dtype_by_name(op)
    return _given(op, dtype, _kind(dtype))


def _dtype_by_name(op: FillOp) -> np.dtype[Any]:
    """Return the type of a ``dtype`` argument: a number, or a name in any case, as in Cast."""
    try:
        return fill_dtype(op, _GIVEN, TensorProto.FLOAT)
    except ArgumentError:
        name = op.args.text("dtype").upper()
        if name not in _GIVEN:
            raise FillError(f"'dtype' must be one of {', '.join(_GIVEN)}, not {name}") from None
        return DTYPES[TensorProto.DataType.Value(name)]


def given_of(dtype: npt.DTypeLike) -> Fill:
    """Make the ``GivenTensor<Type>Fill`` of a dtype."""
    fixed = np.dtype(dtype)
    return lambda op: _given(op, fixed, _kind(fixed))


def byte_string(op: FillOp) -> Filled:
    """``GivenTensorByteStringToUInt8Fill(; values, shape) -> Y``: the bytes of one string are the elements."""
    shape = fill_shape(op)
    if op.values is None:
        raise FillError("argument 'values' is missing")
    texts = wire.payloads(op.values.message(), wire.STRINGS)
    if len(texts) != 1:
        raise FillError(f"'values' must hold one string with the bytes of the tensor, not {len(texts)} strings")
    _require_size(shape, len(texts[0]))
    return Filled(np.dtype(np.uint8), shape, _byte_reader(op.values, wire.STRINGS))


def _byte_reader(values: Values, number: int) -> Callable[[], Array]:
    def read() -> Array:
        span = wire.payloads(values.message(), number)[-1]
        out = np.empty(len(span), np.uint8)
        at = 0
        for piece in span.pieces():
            out[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
            at += len(piece)
        return out

    return read


def _require_size(shape: tuple[int, ...], count: int) -> None:
    if count != math.prod(shape):
        raise FillError(f"shape {list(shape)} has {math.prod(shape)} elements, but 'values' has {count} bytes")


def int8_given(op: FillOp) -> Filled:
    """``Int8GivenTensorFill(; values, shape, Y_scale, Y_zero_point) -> Y``: a string holds the uint8 elements."""
    shape = checked_shape(op.args.integers("shape", default=()))
    texts = wire.payloads(op.values.message(), wire.STRING) if op.values else []
    if op.values and not texts:
        raise FillError("'values' must be a string with the bytes of the tensor")
    _require_size(shape, len(texts[-1]) if texts else 0)
    make = _byte_reader(op.values, wire.STRING) if op.values else lambda: np.empty(0, np.uint8)
    return _quantized(op, Filled(np.dtype(np.uint8), shape, make))


def int8_given_int(op: FillOp) -> Filled:
    """``Int8GivenIntTensorFill(; values, shape, Y_scale, Y_zero_point) -> Y``: int32 elements, for a bias."""
    return _quantized(op, _given(op, np.dtype(np.int32), wire.INTS, required=False))


def _quantized(op: FillOp, filled: Filled) -> Filled:
    scale = op.args.number("Y_scale", default=1.0)
    zero_point = op.args.integer("Y_zero_point", default=0)
    return Filled(filled.dtype, filled.shape, filled.make, scale, zero_point)


def _value(op: FillOp) -> tuple[np.dtype[Any], Any]:
    """Return the dtype and value of ConstantFill and DiagonalFill.

    Without the argument ``dtype``, the field that ``value`` is stored in decides: float32 or int64.
    """
    default: int = TensorProto.FLOAT
    raw = op.args.raw("value")
    if raw is not None and "dtype" not in op.args and not raw.HasField("f"):
        if not raw.HasField("i"):
            raise FillError("argument 'value' must be a float or an integer if 'dtype' is not given")
        default = TensorProto.INT64
    dtype = fill_dtype(op, _CONSTANT, default)
    if dtype.kind == "f":
        return dtype, op.args.number("value", default=0.0)
    if dtype.kind == "O":
        blob = raw.s if raw is not None else b""
        if raw is not None and not raw.HasField("s"):
            raise FillError("argument 'value' must be a string")
        return dtype, blob
    value = op.args.integer("value", default=0)
    if dtype.kind == "b":
        return dtype, bool(value)
    require_range(np.array([value]), dtype)
    return dtype, value


def _full(dtype: np.dtype[Any], shape: tuple[int, ...], value: Any) -> Filled:
    return Filled(dtype, shape, lambda: np.full(shape, value, dtype))


def constant(op: FillOp) -> Filled:
    """``ConstantFill([shape], [value]; value=0, dtype=FLOAT) -> Y``: the value is an argument or the second input."""
    dtype, value = _value(op)
    shape = fill_shape(op)
    if len(op.inputs) < 2:
        return _full(dtype, shape, value)
    given = op.inputs[1]
    if given.size != 1 or given.dtype != dtype or dtype.kind == "O":
        raise FillError(f"input {given.name!r}, the value, must have one element of {dtype.name}")
    return Filled(dtype, shape, lambda: np.full(shape, given.load().reshape(()), dtype))


def half_constant(op: FillOp) -> Filled:
    """``Float16ConstantFill(; shape, value=0) -> Y``."""
    return _full(_HALF, checked_shape(op.args.integers("shape", default=())), op.args.number("value", default=0.0))


def diagonal(op: FillOp) -> Filled:
    """``DiagonalFill([shape]; value=0) -> Y``: the value on the diagonal, zeros elsewhere."""
    dtype, value = _value(op)
    shape = fill_shape(op)
    if dtype.kind == "O":
        raise FillError("'dtype' must be a type of numbers, not STRING")
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise FillError(f"shape {list(shape)} must have two dims, or more dims of equal size, to have a diagonal")
    step = 1 + sum(math.prod(shape[len(shape) - axis :]) for axis in range(1, len(shape)))

    def make() -> Array:
        out = np.zeros(math.prod(shape), dtype)
        out[::step] = value  # in a tall matrix the diagonal wraps around, as in Caffe2
        return out

    return Filled(dtype, shape, make)


def range_fill(op: FillOp) -> Filled:
    """``RangeFill([shape]) -> Y``: the floats 0, 1, 2, ..."""
    shape = fill_shape(op)
    return Filled(_FLOAT, shape, lambda: np.arange(math.prod(shape), dtype=_FLOAT))


def lengths_range(op: FillOp) -> Filled:
    """``LengthsRangeFill(lengths) -> Y``: 0 ... length - 1 for each length, concatenated."""
    if len(op.inputs) != 1 or op.inputs[0].dtype != np.int32 or len(op.inputs[0].shape) != 1:
        raise FillError("the operator must have one input, a vector of int32 lengths")
    lengths = op.inputs[0].load()
    if (lengths < 0).any():
        raise FillError(f"input {op.inputs[0].name!r} must not hold negative lengths")
    total = int(lengths.sum())
    starts = np.cumsum(lengths) - lengths
    return Filled(
        np.dtype(np.int32), (total,), lambda: (np.arange(total) - np.repeat(starts, lengths)).astype(np.int32)
    )

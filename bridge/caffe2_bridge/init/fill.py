"""What fills have in common: the operator they see, what they answer, its shape and type."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.netdef.parameters import DTYPES, Array, Parameter
from caffe2_bridge.netdef.views import Args
from caffe2_bridge.proto.caffe2_pb2 import TensorProto
from caffe2_bridge.wire import read as wire

_TYPE_NAMES: Final[dict[int, str]] = {number: name for name, number in TensorProto.DataType.items()}
_MOST_ELEMENTS: Final = 1 << 47
_MOST_DIMENSIONS: Final = 32  # what every numpy holds


class FillError(BridgeError):
    """A fill operator does not say what it should. Says why, not where."""


@dataclass(frozen=True, slots=True)
class Values:
    """The ``values`` argument of an operator, not decoded: ``message`` gives the bytes of the Argument."""

    message: Callable[[], wire.Span]

    def __call__(self, kind: int, dtype: np.dtype[Any]) -> Array:
        """All values of one kind (wire.FLOATS, INTS or STRINGS), flat, as ``dtype``."""
        span = self.message()
        if kind == wire.FLOATS:
            return wire.fixed(span, kind, "<f4").astype(dtype, copy=False)
        if kind == wire.INTS:
            return wire.varints(span, kind).astype(dtype, copy=False)
        texts = wire.payloads(span, kind)
        out = np.empty(len(texts), dtype)
        out[:] = [text.tobytes() for text in texts]
        return out

    def count(self, kind: int) -> int:
        """How many values of one kind there are."""
        span = self.message()
        if kind == wire.FLOATS:
            return wire.count_fixed(span, kind, 4)
        if kind == wire.INTS:
            return wire.count_varints(span, kind)
        return len(wire.payloads(span, kind))


@dataclass(frozen=True, slots=True)
class FillOp:
    """A fill operator: its arguments without ``values``, those, its inputs, and the seed of its random numbers."""

    args: Args
    values: Values | None
    inputs: tuple[Parameter, ...]
    seed: tuple[int, ...]

    def generator(self) -> np.random.Generator:
        """A fresh generator: the same numbers every time."""
        return np.random.default_rng(self.seed)


@dataclass(frozen=True, slots=True)
class Filled:
    """What an operator makes. ``make`` gives ``shape`` elements of ``dtype``, in any shape of that size."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    make: Callable[[], Array]
    scale: float | None = None
    zero_point: int | None = None


Fill = Callable[[FillOp], Filled]


def fill_shape(op: FillOp) -> tuple[int, ...]:
    """The shape that Caffe2's FillerOp finds: given, that of the first input, or that which the first input holds."""
    shape = op.args.integers("shape", default=())
    extra = op.args.integers("extra_shape", default=())
    as_shape = bool(op.args.integer("input_as_shape", default=0))
    if not op.inputs:
        if extra:
            raise FillError("'extra_shape' needs an input, but the operator has none")
        if as_shape:
            raise FillError("'input_as_shape' needs an input, but the operator has none")
        return checked_shape(shape)
    if shape:
        raise FillError("'shape' and an input are given at the same time")
    first = op.inputs[0]
    if not as_shape:
        return checked_shape((*first.shape, *extra))
    if first.dtype != np.int64 or len(first.shape) != 1 or not first.size:
        raise FillError(f"input {first.name!r} is the shape, and must be a vector of int64 with at least one element")
    return checked_shape((*map(int, first.load()), *extra))


def checked_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape. Raises FillError where a dimension is negative, or no machine could hold the tensor."""
    if any(dim < 0 for dim in shape):
        raise FillError(f"the shape {list(shape)} has a negative dimension")
    if math.prod(shape) > _MOST_ELEMENTS or len(shape) > _MOST_DIMENSIONS:
        raise FillError(f"the shape {list(shape)} is too large for a tensor: it has {math.prod(shape)} elements")
    return shape


def fill_dtype(op: FillOp, allowed: tuple[str, ...], default: int) -> np.dtype[Any]:
    """The type that the ``dtype`` argument names by number. Raises FillError where it is not one of ``allowed``."""
    number = op.args.integer("dtype", default=default)
    name = _TYPE_NAMES.get(number, str(number))
    if name not in allowed:
        raise FillError(f"'dtype' is {name}, which this operator cannot write")
    return DTYPES[number]


def require_range(values: Array, dtype: np.dtype[Any]) -> None:
    """Raise FillError where integers do not fit their type."""
    if dtype.kind in "iu" and values.size:
        info = np.iinfo(dtype)
        for value in (values.min(), values.max()):
            if not info.min <= value <= info.max:
                raise FillError(f"the value {value} does not fit {dtype.name}")

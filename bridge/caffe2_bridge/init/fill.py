"""Types and helpers that all fills share: operator, result, shape and dtype."""

from __future__ import annotations

import math
from collections.abc import Callable, Sized
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from caffe2_bridge import wire
from caffe2_bridge.bounds import is_possible_shape
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.netdef.parameters import DTYPES, Array, Parameter
from caffe2_bridge.netdef.views import Args
from caffe2_bridge.proto.caffe2_pb2 import Argument, TensorProto

_TYPE_NAMES: Final[dict[int, str]] = {number: name for name, number in TensorProto.DataType.items()}


_LISTS: Final[dict[int, Callable[[Argument], Sized]]] = {
    wire.FLOATS: lambda arg: arg.floats,
    wire.INTS: lambda arg: arg.ints,
    wire.STRINGS: lambda arg: arg.strings,
}


class FillError(BridgeError):
    """A fill operator is invalid. The message gives the reason, not the operator."""


@dataclass(frozen=True, slots=True)
class Values:
    """The ``values`` argument of an operator, decoded on demand.

    ``message`` returns the bytes of the Argument, which is ``parsed`` unless it is read from a file.
    """

    message: Callable[[], wire.Span]
    parsed: Argument | None = None

    def __call__(self, kind: int, dtype: np.dtype[Any]) -> Array:
        """Decode all values of one field (wire.FLOATS, INTS or STRINGS) into a flat array of ``dtype``."""
        span = self.message()
        if kind == wire.FLOATS:
            return wire.fixed(span, kind, "<f4").astype(dtype, copy=False)
        if kind == wire.INTS:
            return wire.varints(span, kind, dtype)
        texts = wire.payloads(span, kind)
        out = np.empty(len(texts), dtype)
        out[:] = [text.tobytes() for text in texts]
        return out

    def count(self, kind: int) -> int:
        """Count the values of one field."""
        if self.parsed is not None:
            return len(_LISTS[kind](self.parsed))
        span = self.message()
        if kind == wire.FLOATS:
            return wire.count_fixed(span, kind, 4)
        if kind == wire.INTS:
            return wire.count_varints(span, kind)
        return len(wire.payloads(span, kind))


@dataclass(frozen=True, slots=True)
class FillOp:
    """A fill operator: its arguments except ``values``, its values, its inputs, and its random seed."""

    args: Args
    values: Values | None
    inputs: tuple[Parameter, ...]
    seed: tuple[int, ...]

    def generator(self) -> np.random.Generator:
        """Make a random generator from the seed: each has the same sequence."""
        return np.random.default_rng(self.seed)


@dataclass(frozen=True, slots=True)
class Filled:
    """The output of a fill. ``make`` computes its elements, in any shape with as many elements as ``shape``."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    make: Callable[[], Array]
    scale: float | None = None
    zero_point: int | None = None


Fill = Callable[[FillOp], Filled]


def fill_shape(op: FillOp) -> tuple[int, ...]:
    """Return the output shape as Caffe2's FillerOp determines it.

    It is the argument ``shape``; or the shape of the first input; or, with ``input_as_shape``, the contents of the
    first input. ``extra_shape`` is appended. Raises FillError if the arguments contradict each other.
    """
    shape = op.args.integers("shape", default=())
    extra = op.args.integers("extra_shape", default=())
    as_shape = bool(op.args.integer("input_as_shape", default=0))
    if not op.inputs:
        if extra:
            raise FillError("argument 'extra_shape' requires an input, but the operator has none")
        if as_shape:
            raise FillError("argument 'input_as_shape' requires an input, but the operator has none")
        return checked_shape(shape)
    if shape:
        raise FillError("the operator must not have both an input and the argument 'shape'")
    first = op.inputs[0]
    if not as_shape:
        return checked_shape((*first.shape, *extra))
    if first.dtype != np.int64 or len(first.shape) != 1 or not first.size:
        raise FillError(f"input {first.name!r}, the shape, must be a vector of int64 with at least one element")
    return checked_shape((*map(int, first.load()), *extra))


def checked_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return ``shape``. Raises FillError if a dim is negative, or the tensor is too large for any machine."""
    if any(dim < 0 for dim in shape):
        raise FillError(f"shape {list(shape)} must not have negative dims")
    if not is_possible_shape(shape):
        raise FillError(
            f"shape {list(shape)} is too large for a tensor: it has {math.prod(shape)} elements and rank {len(shape)}"
        )
    return shape


def fill_dtype(op: FillOp, allowed: tuple[str, ...], default: int) -> np.dtype[Any]:
    """Return the type of a numeric ``dtype`` argument. Raises FillError if it is not one of ``allowed``."""
    number = op.args.integer("dtype", default=default)
    name = _TYPE_NAMES.get(number, str(number))
    if name not in allowed:
        raise FillError(f"'dtype' must be one of {', '.join(allowed)}, not {name}")
    return DTYPES[number]


def require_range(values: Array, dtype: np.dtype[Any]) -> None:
    """Raise FillError if integers are out of the range of their type."""
    if dtype.kind in "iu" and values.size:
        info = np.iinfo(dtype)
        for value in (values.min(), values.max()):
            if not info.min <= value <= info.max:
                raise FillError(f"value {value} is out of the range of {dtype.name}")

"""Fills that draw random numbers."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from caffe2_bridge.init.fill import Filled, FillError, FillOp, checked_shape, fill_dtype, fill_shape, require_range
from caffe2_bridge.netdef.parameters import Array
from caffe2_bridge.proto.caffe2_pb2 import TensorProto

_FLOAT: Final = np.dtype(np.float32)
_HALF: Final = np.dtype(np.float16)


def _bounds(op: FillOp, kind: type[float | int]) -> tuple[Any, Any]:
    """The range of a uniform fill, from arguments, or from the second and third input."""
    given = {name for name in ("min", "max") if name in op.args}
    if len(op.inputs) == 3:
        if given:
            raise FillError(f"{sorted(given)} are given both as arguments and as inputs")
        if any(blob.size != 1 for blob in op.inputs[1:]):
            raise FillError("the inputs for min and max must have one element each")
        low, high = (blob.load().item() for blob in op.inputs[1:])
        return low, high
    read = op.args.number if kind is float else op.args.integer
    low, high = read("min", default=0), read("max", default=1)
    if low >= high:
        raise FillError(f"max ({high}) must be greater than min ({low})")
    return low, high


def uniform(op: FillOp) -> Filled:
    """Floats in [min, max). Bounds that are inputs may be the wrong way round: then nothing is drawn."""
    low, high = _bounds(op, float)
    shape = fill_shape(op)
    if low > high:
        return Filled(_FLOAT, (0, *shape[1:]), lambda: np.empty(0, _FLOAT))
    return Filled(_FLOAT, shape, lambda: _spread(op, shape, low, high))


def _spread(op: FillOp, shape: tuple[int, ...], low: float, high: float) -> Array:
    out = op.generator().random(shape, dtype=np.float32)
    return out * np.float32(high - low) + np.float32(low)


def half_uniform(op: FillOp) -> Filled:
    """The same as float16."""
    low, high = _bounds(op, float)
    shape = checked_shape(op.args.integers("shape", default=()))
    return Filled(_HALF, shape, lambda: _spread(op, shape, low, high).astype(_HALF))


def uniform_int(op: FillOp) -> Filled:
    """Integers in min..max, both included."""
    low, high = _bounds(op, int)
    shape = fill_shape(op)
    dtype = np.dtype(np.int32)
    if low > high:
        return Filled(dtype, (0, *shape[1:]), lambda: np.empty(0, dtype))
    require_range(np.array([low, high]), dtype)
    return Filled(dtype, shape, lambda: op.generator().integers(low, high, shape, dtype, endpoint=True))


def unique_uniform(op: FillOp) -> Filled:
    """Different integers in min..max, both included, none of them in the second input."""
    dtype = fill_dtype(op, ("INT32", "INT64"), TensorProto.INT32)
    low, high = op.args.integer("min"), op.args.integer("max")
    if low >= high:
        raise FillError(f"max ({high}) must be greater than min ({low})")
    require_range(np.array([low, high]), dtype)
    shape = fill_shape(op)
    avoid = op.inputs[1].load().reshape(-1) if len(op.inputs) > 1 else np.empty(0, dtype)
    avoid = np.unique(avoid[(avoid >= low) & (avoid <= high)])
    size = math.prod(shape)
    if size > high - low + 1 - avoid.size:
        raise FillError(f"{low}..{high} holds no {size} different values besides those to avoid")

    def make() -> Array:
        # Draws among the values that are left, then counts past those to be avoided.
        drawn = op.generator().choice(high - low + 1 - avoid.size, size, replace=False) + low
        for value in avoid:
            drawn += drawn >= value
        return drawn.astype(dtype)

    return Filled(dtype, shape, make)


def _normal(op: FillOp, shape: tuple[int, ...], mean: float, std: float) -> Filled:
    if std < 0:
        raise FillError(f"the standard deviation {std} is negative")

    def make() -> Array:
        return op.generator().standard_normal(shape, dtype=np.float32) * np.float32(std) + np.float32(mean)

    return Filled(_FLOAT, shape, make)


def gaussian(op: FillOp) -> Filled:
    """Floats around ``mean`` with the deviation ``std``."""
    return _normal(op, fill_shape(op), op.args.number("mean", default=0.0), op.args.number("std", default=1.0))


def _fan(shape: tuple[int, ...], axis: int) -> int:
    """Elements for each index of an axis. An axis without elements has none to spread."""
    if len(shape) <= axis:
        raise FillError(f"the shape {list(shape)} must have at least {axis + 1} dimensions")
    return max(1, math.prod(shape) // max(1, shape[axis]))


def xavier(op: FillOp) -> Filled:
    """Floats within the square root of 3 / fan-in; Caffe2 counts the elements for each index of the first axis."""
    shape = fill_shape(op)
    bound = math.sqrt(3 / _fan(shape, 0))
    return Filled(_FLOAT, shape, lambda: _spread(op, shape, -bound, bound))


def msra(op: FillOp) -> Filled:
    """Floats around 0 with the deviation sqrt(2 / fan-out): the elements for each index of the second axis."""
    shape = fill_shape(op)
    return _normal(op, shape, 0.0, math.sqrt(2 / _fan(shape, 1)))

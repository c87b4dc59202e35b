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
    """Return the range of a uniform fill, from the arguments or from the second and third input."""
    given = {name for name in ("min", "max") if name in op.args}
    if len(op.inputs) == 3:
        if given:
            raise FillError(
                f"min and max must be arguments or inputs, not both: the arguments {sorted(given)} are given"
            )
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
    """``UniformFill([shape], [min, max]; min=0, max=1) -> Y``: floats in [min, max).

    If min and max are inputs and min exceeds max, the output has no elements, as in Caffe2.
    """
    low, high = _bounds(op, float)
    shape = fill_shape(op)
    if low > high:
        return Filled(_FLOAT, (0, *shape[1:]), lambda: np.empty(0, _FLOAT))
    return Filled(_FLOAT, shape, lambda: _draw_uniform(op, shape, low, high))


def _draw_uniform(op: FillOp, shape: tuple[int, ...], low: float, high: float) -> Array:
    out = op.generator().random(shape, dtype=np.float32)
    return out * np.float32(high - low) + np.float32(low)


def half_uniform(op: FillOp) -> Filled:
    """``Float16UniformFill(; shape, min=0, max=1) -> Y``."""
    low, high = _bounds(op, float)
    shape = checked_shape(op.args.integers("shape", default=()))
    return Filled(_HALF, shape, lambda: _draw_uniform(op, shape, low, high).astype(_HALF))


def uniform_int(op: FillOp) -> Filled:
    """``UniformIntFill([shape], [min, max]; min=0, max=1) -> Y``: integers in [min, max]."""
    low, high = _bounds(op, int)
    shape = fill_shape(op)
    dtype = np.dtype(np.int32)
    if low > high:
        return Filled(dtype, (0, *shape[1:]), lambda: np.empty(0, dtype))
    require_range(np.array([low, high]), dtype)
    return Filled(dtype, shape, lambda: op.generator().integers(low, high, shape, dtype, endpoint=True))


def unique_uniform(op: FillOp) -> Filled:
    """``UniqueUniformFill([shape], [avoid]; min, max, dtype=INT32) -> Y``: distinct integers in [min, max].

    None of them is in ``avoid``.
    """
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
        raise FillError(f"the range [{low}, {high}] must hold at least {size} values that are not to be avoided")

    def make() -> Array:
        # Draw among as many values as are left, then shift each past the avoided values below it, in ascending order.
        drawn = op.generator().choice(high - low + 1 - avoid.size, size, replace=False) + low
        for value in avoid:
            drawn += drawn >= value
        return drawn.astype(dtype)

    return Filled(dtype, shape, make)


def _normal(op: FillOp, shape: tuple[int, ...], mean: float, std: float) -> Filled:
    if std < 0:
        raise FillError(f"std ({std}) must not be negative")

    def make() -> Array:
        return op.generator().standard_normal(shape, dtype=np.float32) * np.float32(std) + np.float32(mean)

    return Filled(_FLOAT, shape, make)


def gaussian(op: FillOp) -> Filled:
    """``GaussianFill([shape]; mean=0, std=1) -> Y``."""
    return _normal(op, fill_shape(op), op.args.number("mean", default=0.0), op.args.number("std", default=1.0))


def _fan(shape: tuple[int, ...], axis: int) -> int:
    """Return the number of elements per index of an axis, at least 1."""
    if len(shape) <= axis:
        raise FillError(f"shape {list(shape)} must have at least {axis + 1} dims")
    return max(1, math.prod(shape) // max(1, shape[axis]))


def xavier(op: FillOp) -> Filled:
    """``XavierFill([shape]) -> Y``: uniform in [-b, b) with b = sqrt(3 / fan_in).

    fan_in is the number of elements per index of the first axis.
    """
    shape = fill_shape(op)
    bound = math.sqrt(3 / _fan(shape, 0))
    return Filled(_FLOAT, shape, lambda: _draw_uniform(op, shape, -bound, bound))


def msra(op: FillOp) -> Filled:
    """``MSRAFill([shape]) -> Y``: normal with mean 0 and std sqrt(2 / fan_out).

    fan_out is the number of elements per index of the second axis.
    """
    shape = fill_shape(op)
    return _normal(op, shape, 0.0, math.sqrt(2 / _fan(shape, 1)))

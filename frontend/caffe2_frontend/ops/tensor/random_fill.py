"""Random fills: the distributions are Caffe2's, the elements are not, because the random generators differ.

With a seed in the device option every run yields the same elements. <shape> in a signature stands for shape=[],
extra_shape=[] and input_as_shape=0, which fill_shape reads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import TensorProto
from caffe2_frontend.emit.arithmetic import add, binary, mul, scalar, sub
from caffe2_frontend.emit.random import constant_tensor, random_uniform
from caffe2_frontend.emit.shapes import cast, reshape, unsqueeze
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Expectation, Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.tensor.fill import FillShape, fill_operand, fill_shape

family = Family("random_fill")

_SMALL_RANGE: Final = 1 << 20  # of which all integers are looked at
_INTEGERS: Final[Mapping[int, ir.DataType]] = {
    TensorProto.INT32: ir.DataType.INT32,
    TensorProto.INT64: ir.DataType.INT64,
}


def _bounded(dtype: ir.DataType) -> Expectation:
    """Describe operands: a shape, then bounds of one element."""

    def expected(op: OpView, index: int) -> TensorInfo:
        return TensorInfo(dtype, (1,)) if index else fill_operand(op, index)

    return expected


@family.converts("UniformFill", expects=_bounded(ir.DataType.FLOAT))
def uniform(op: Op) -> Value:
    """UniformFill([X, min, max]; min=0.0, max=1.0, <shape>) -> Y.

    The bounds are arguments or operands. If operands have min > max, the result has no rows.
    """
    shape = fill_shape(op)
    if op.has_input(1):
        first, last, shape = _bound_operands(op, shape)
        return add(op, mul(op, _uniform(op, shape), sub(op, last, first)), first)
    low, high = op.args.number("min", default=0.0), op.args.number("max", default=1.0)
    _require_order(op, low, high)
    return _uniform(op, shape, low, high)


@family.converts("Float16UniformFill")
def half_uniform(op: Op) -> Value:
    """Float16UniformFill(; min=0.0, max=1.0, shape) -> Y."""
    low, high = op.args.number("min", default=0.0), op.args.number("max", default=1.0)
    _require_order(op, low, high)
    return cast(op, _uniform(op, fill_shape(op), low, high), ir.DataType.FLOAT16)


@family.converts("UniformIntFill", expects=_bounded(ir.DataType.INT32))
def uniform_int(op: Op) -> Value:
    """UniformIntFill([X, min, max]; min=0, max=1, <shape>) -> Y. Both bounds are inclusive."""
    shape = fill_shape(op)
    low: Value
    high: Value
    if op.has_input(1):
        low, high, shape = _bound_operands(op, shape)
    else:
        bounds = op.args.integer("min", default=0), op.args.integer("max", default=1)
        _require_order(op, *bounds)
        low, high = (op.const(bound, np.int32) for bound in bounds)
    # In float64: the size of the range, up to 2**32, exceeds int32 and the exact integers of float32.
    first, last = (cast(op, bound, ir.DataType.DOUBLE) for bound in (low, high))
    span = add(op, sub(op, last, first), 1.0)
    drawn = op.emit("Floor", mul(op, _uniform(op, shape, dtype=ir.DataType.DOUBLE), span))
    return cast(op, op.emit("Min", add(op, drawn, first), last), ir.DataType.INT32)


@family.converts("UniqueUniformFill", expects=fill_operand)
def unique_uniform(op: Op) -> Value:
    """UniqueUniformFill([X, avoid]; min, max, dtype="INT32", <shape>) -> Y.

    Distinct integers of [min, max] that the second operand does not list. Of a small range they are chosen among all,
    of a large one drawn again and again, as in Caffe2; so many times that they are hardly ever fewer than asked for if
    these are at most nine tenths of a large range.
    """
    shape = fill_shape(op)
    low, high = op.args.integer("min"), op.args.integer("max")
    _require_order(op, low, high)
    dtype = _INTEGERS.get(op.args.integer("dtype", default=TensorProto.INT32))
    if dtype is None:
        op.unsupported("argument 'dtype' must be INT32 or INT64", code="invalid-argument")
    if dtype is ir.DataType.INT32 and not -(1 << 31) <= low < high < 1 << 31:
        op.unsupported(f"min ({low}) and max ({high}) must fit into 32 bits, as 'dtype' says", code="invalid-argument")
    avoided = reshape(op, cast(op, op.input(1), ir.DataType.INT64), [-1]) if op.has_input(1) else None
    wanted = op.emit("ReduceProd", shape.vector, keepdims=1, shape=[1])
    choose = _chosen if high - low < _SMALL_RANGE else _drawn
    return shape.reshape(op, cast(op, choose(op, low, high, avoided, wanted), dtype))


def _chosen(op: Op, low: int, high: int, avoided: Value | None, wanted: Value) -> Value:
    """Choose distinct integers of a small range: each gets a random key, and the largest keys are taken.

    Avoided ones get the key -1, below all others.
    """
    count = high - low + 1
    keys = _uniform(op, FillShape(op.const([count], np.int64), (count,)))
    if avoided is not None:
        index = sub(op, avoided, low)
        inside = op.emit("And", binary(op, "GreaterOrEqual", index, 0), binary(op, "Less", index, count))
        # Integers outside of the range address an extra key at the end, which is -1 and is not selected either.
        index = op.emit("Where", inside, index, op.const(count, np.int64))
        keys = op.emit("Concat", keys, op.const([-1.0], np.float32), axis=0)
        never = op.emit("Expand", op.const(-1.0, np.float32), op.emit("Shape", index))
        keys = op.emit("ScatterElements", keys, index, never, axis=0)
    _, chosen = op.emit("TopK", keys, wanted, outputs=2)
    return add(op, chosen, low)


def _drawn(op: Op, low: int, high: int, avoided: Value | None, wanted: Value) -> Value:
    """Draw distinct integers of a large range: the first, of many that are drawn, that are new and not avoided."""
    listed = op.const([0], np.int64) if avoided is None else op.emit("Shape", avoided)
    # With 4 draws for each that is wanted, more than nine tenths of the range are hit at least once.
    draws = add(op, mul(op, add(op, wanted, listed), 4), 64)
    uniform = _uniform(op, FillShape(draws, (None,)), dtype=ir.DataType.DOUBLE)
    count = high - low + 1
    offset = 1 << 63 if count > 1 << 63 else 0  # an index beyond 63 bits is counted from the lowest integer on
    step = sub(op, op.emit("Floor", mul(op, uniform, float(count))), float(offset))
    drawn = op.emit("Min", add(op, cast(op, step, ir.DataType.INT64), low + offset), op.const(high, np.int64))
    every = drawn if avoided is None else op.emit("Concat", avoided, drawn, axis=0)
    distinct, first = op.emit("Unique", every, sorted=0, outputs=4)[:2]
    new = op.emit("Compress", distinct, op.emit("GreaterOrEqual", first, listed), axis=0)
    return op.emit("Slice", new, op.const([0], np.int64), wanted, shape=[None])


@family.converts("GaussianFill", expects=fill_operand)
def gaussian(op: Op) -> Value:
    """GaussianFill([X]; mean=0.0, std=1.0, <shape>) -> Y."""
    mean, std = op.args.number("mean", default=0.0), op.args.number("std", default=1.0)
    if std < 0:
        op.unsupported(f"std must not be negative: {std}", code="invalid-argument")
    return _normal(op, fill_shape(op), mean, std)


@family.converts("XavierFill", expects=fill_operand)
def xavier(op: Op) -> Value:
    """XavierFill([X]; <shape>) -> Y.

    Uniform in [-s, s] with ``s = sqrt(3 / fan_in)``, where fan_in is the number of elements over the first dim.
    """
    shape = fill_shape(op)
    return mul(op, _uniform(op, shape, -1.0, 1.0), _scale(op, shape, 3.0, 0))


@family.converts("MSRAFill", expects=fill_operand)
def msra(op: Op) -> Value:
    """MSRAFill([X]; <shape>) -> Y.

    Normal with the variance ``2 / fan_out``, where fan_out is the number of elements over the second dim.
    """
    shape = fill_shape(op)
    return mul(op, _normal(op, shape, 0.0, 1.0), _scale(op, shape, 2.0, 1))


def _scale(op: Op, shape: FillShape, numerator: float, axis: int) -> Value:
    """Return ``sqrt(numerator / fan)``, where fan is the number of elements over the dim at ``axis``."""
    if shape.dims is not None and len(shape.dims) <= axis:
        op.unsupported(f"the shape must have at least {axis + 1} dims", code="invalid-argument")
    total = op.emit("ReduceProd", shape.vector, keepdims=0, shape=[])
    own = op.emit("Gather", shape.vector, op.const(axis, np.int64), axis=0)
    fan = op.emit("Div", *(cast(op, x, ir.DataType.FLOAT) for x in (total, own)))
    return op.emit("Sqrt", binary(op, "Div", numerator, fan))


def _bound_operands(op: Op, shape: FillShape) -> tuple[Value, Value, FillShape]:
    """Return the bounds that are operands, as scalars, and the shape, with no rows if they are crossed."""
    given = [name for name in ("min", "max") if name in op.args]
    if given:
        op.unsupported(
            f"{' and '.join(given)} must not be given both as arguments and as inputs",
            hint="remove the arguments",
            code="invalid-argument",
        )
    low, high = scalar(op, op.input(1)), scalar(op, op.input(2))
    rows = cast(op, op.emit("LessOrEqual", low, high), ir.DataType.INT64)
    first, rest = (
        op.emit("Slice", shape.vector, *(op.const([v], np.int64) for v in ends)) for ends in ((0, 1), (1, 99))
    )
    dims = op.emit("Concat", op.emit("Mul", first, unsqueeze(op, rows, [0])), rest, axis=0)
    return low, high, FillShape(dims, None if shape.dims is None else (None, *shape.dims[1:]))


def _require_order(op: Op, low: float, high: float) -> None:
    """Refuse bounds that are equal or crossed, or between which there is no finite distance."""
    if not 0 < high - low <= np.finfo(np.float32).max:
        reason = f"max ({high}) must be greater than min ({low}), by a finite number"
        op.unsupported(reason, code="invalid-argument")


def _uniform(
    op: Op, shape: FillShape, low: float = 0.0, high: float = 1.0, dtype: ir.DataType = ir.DataType.FLOAT
) -> Value:
    """Emit uniform random elements in [low, high)."""
    return random_uniform(op, shape.vector, shape.dims, low=low, high=high, dtype=dtype)


def _normal(op: Op, shape: FillShape, mean: float, std: float) -> Value:
    """Emit normal random elements."""
    if math.isnan(std):  # on which onnxruntime's process ends, as on a negative number
        op.unsupported("the standard deviation must be a number, not a NaN", code="invalid-argument")
    if std == 0:  # some runtimes refuse it
        return constant_tensor(op, shape.vector, shape.dims, value=mean)
    like = constant_tensor(op, shape.vector, shape.dims)
    return op.emit("RandomNormalLike", like, mean=mean, scale=abs(std), seed=op.view.random_seed, shape=shape.dims)

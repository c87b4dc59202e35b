"""Reductions over all dims, over given ones, and over all but the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, binary, mul, sub
from caffe2_frontend.emit.operand_checks import NUMBERS, require_dtype
from caffe2_frontend.emit.shapes import cast, reshape, squeeze
from caffe2_frontend.lowering.op import Op, Value


def reduce_axes(op: Op, op_type: str, x: Value, axes: Sequence[int], *, keep: bool = False) -> Value:
    """Reduce ``x`` over ``axes``; over no axes it is returned unchanged."""
    if not axes and op_type not in ("ReduceL1", "ReduceL2"):
        return x
    if op_type in ("ReduceMax", "ReduceMin") and op.dtype(x) == ir.DataType.INT64:
        return _extreme_of_halves(op, op_type, x, axes, keep=keep)
    return op.emit(op_type, x, op.const(list(axes), np.int64), keepdims=int(keep))


def _extreme_of_halves(op: Op, op_type: str, x: Value, axes: Sequence[int], *, keep: bool) -> Value:
    """Return the maximum or minimum of int64 ``x`` over ``axes``, found in halves of 32 bits.

    onnxruntime's vectorized kernels compare int64 values of 33 to 45 bits wrongly. Of the elements whose upper half is
    the extreme one, the lower half decides. Both halves are in the range of int32, the lower one shifted into it.
    """
    over = op.const(list(axes), np.int64)
    low, high = split_words(op, x)
    low = sub(op, low, 2**31)
    extreme = op.emit(op_type, high, over, keepdims=1)
    last = 2**31 - 1 if op_type == "ReduceMin" else -(2**31)
    candidates = op.emit("Where", op.emit("Equal", high, extreme), low, op.const(last, np.int64))
    result = add(op, mul(op, extreme, 2**32), op.emit(op_type, candidates, over, keepdims=1), 2**31)
    return result if keep else squeeze(op, result, axes)


def split_words(op: Op, x: Value) -> tuple[Value, Value]:
    """Return the lower 32 bits of int64 ``x``, from 0 on, and the upper ones with the sign."""
    base = op.const(2**32, np.int64)
    low = op.emit("Mod", x, base)
    return low, op.emit("Div", op.emit("Sub", x, low), base)


def sum_axes(op: Op, x: Value, axes: Sequence[int], *, keep: bool = False) -> Value:
    """Return the sum of ``x`` over ``axes``; integers wrap around at the ends of their type, as in Caffe2."""
    return wrapping_sum(op, x, lambda part: reduce_axes(op, "ReduceSum", part, axes, keep=keep)) if axes else x


def wrapping_sum(op: Op, x: Value, reduce: Callable[[Value], Value]) -> Value:
    """Sum ``x`` by ``reduce``, which emits a ReduceSum; integers wrap around at the ends of their type.

    onnxruntime adds integers up as float64, which holds 53 bits, and cuts off what exceeds their type. int32 is
    therefore summed as int64, and int64 in halves of 32 bits: exact for up to 2 ** 21 elements.
    """
    dtype = op.dtype(x)
    if dtype == ir.DataType.INT32:
        return cast(op, reduce(cast(op, x, ir.DataType.INT64)), dtype)
    if dtype != ir.DataType.INT64:
        return reduce(x)
    low, high = split_words(op, x)
    return op.emit("Add", mul(op, reduce(high), 2**32), reduce(low))


def reduce_all(op: Op, op_type: str, x: Value) -> Value:
    """Reduce all dims, to a scalar."""
    require_dtype(op, x, NUMBERS, "the input")
    return op.emit(op_type, x, keepdims=0, shape=[])


def reduce_each_row(op: Op, op_type: str, x: Value) -> Value:
    """Reduce all dims but the first; a scalar becomes a vector of one element."""
    rank = op.rank(x)
    if rank == 0:
        return reshape(op, x, [1])
    return reduce_axes(op, op_type, x, list(range(1, rank)))


def mean_of_all(op: Op, x: Value) -> Value:
    """Return the mean of all elements, a scalar; 0 if there are none, where ONNX's ReduceMean is undefined."""
    mean = reduce_all(op, "ReduceMean", x)
    if op.shape(x).is_static() and 0 not in op.shape(x):
        return mean
    return op.emit("Where", binary(op, "Equal", op.emit("Size", x), 0), op.const(0.0, x), mean)

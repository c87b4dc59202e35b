"""Adapters of operators that compute along an axis: softmax, the largest elements, running sums."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.interop.types import BOOL, INT64
from caffe2_frontend.opsets.rewriter import Rewriter
from caffe2_frontend.opsets.rules import Rules

rules = Rules()

_FAR: Final = np.iinfo(np.int64).max


@rules.before(11, "Concat", "Flatten", "Gather", "ArgMax", "ArgMin", "Compress", "Split", "Softmax", "LogSoftmax")
def axis_from_the_front(at: Rewriter) -> None:
    """Count the axis from the front, not from the end."""
    axis = at.integer("axis", 0)
    if axis < 0:
        value = at.node.outputs[0] if at.node.op_type == "Concat" else at.input(0)
        at.set("axis", axis + at.rank(value))


@rules.before(13, "Softmax", "LogSoftmax")
def softmax_of_last_axis(at: Rewriter) -> ir.Value | None:
    """Move the axis to the end: all dims from it on were one, so that only the last axis means the same."""
    rank = at.rank(at.input(0))
    axis = at.integer("axis", -1) % max(rank, 1)
    at.set("axis", axis)
    if axis >= rank - 1:
        return None
    order = [*(other for other in range(rank) if other != axis), axis]
    last = at.emit("Transpose", at.input(0), perm=order)
    result = at.emit(at.node.op_type, last, axis=rank - 1)
    return at.emit("Transpose", result, perm=[order.index(other) for other in range(rank)])


@rules.before(11, "TopK")
def top_k(at: Rewriter) -> tuple[ir.Value, ...] | None:
    """Express TopK by the largest elements, in order, of floats: there were no others."""
    largest, ordered = at.integer("largest", 1), at.integer("sorted", 1)
    axis = at.integer("axis", -1) % max(at.rank(at.input(0)), 1)
    for name in ("largest", "sorted"):
        at.node.attributes.pop(name, None)
    at.set("axis", axis)
    x = at.input(0)
    dtype = at.dtype(x)
    if (largest and dtype.is_floating_point()) or not ordered:
        return None
    if dtype in (INT64, ir.DataType.UINT64):
        at.refuse(f"it orders elements of type {dtype.name.lower()}")
    wide = at.cast(x, ir.DataType.DOUBLE) if not dtype.is_floating_point() else x
    values, indices = at.several(2, "TopK", wide if largest else at.emit("Neg", wide), at.input(1), axis=axis)
    return at.cast(values if largest else at.emit("Neg", values), dtype), indices


@rules.before(10, "TopK")
def top_k_of_known_count(at: Rewriter) -> None:
    """Move the number of elements from an operand to an attribute."""
    count = at.constant(1)
    if count is None:
        at.refuse("its number of elements is computed at run time")
    at.set("k", int(count.reshape(-1)[0]))
    at.keep_inputs(1)


@rules.before(11, "CumSum")
def cumulative_sum(at: Rewriter) -> ir.Value:
    """Multiply by a triangular matrix, from the right along the last axis, and from the left along the one before.

    onnxruntime fuses a product with a transposition of its last two axes, and then fails where there are no elements;
    so does a product of a matrix with a batch of no elements.
    """
    x, axis = at.input(0), at.constant(1)
    if axis is None:
        at.refuse("its axis is computed at run time")
    rank = at.rank(x)
    number = int(axis.reshape(-1)[0]) % rank
    is_left = number == rank - 2
    dtype = at.dtype(x)
    size = at.element(at.emit("Shape", x), number)
    line = at.emit("Range", at.const(0, np.int64), size, at.const(1, np.int64))
    row = at.emit("Unsqueeze", line, at.const([1], np.int64))
    column = at.emit("Unsqueeze", line, at.const([0], np.int64))
    if bool(at.integer("reverse", 0)) != is_left:
        row, column = column, row
    summed = at.emit("Less", row, column)
    if not at.integer("exclusive", 0):
        summed = at.emit("Or", summed, at.emit("Equal", row, column))
    if is_left:
        matrix = at.cast(summed, dtype)
        if rank > 2:
            batch = at.part(at.emit("Shape", x), 0, -2)
            matrix = at.emit("Expand", matrix, at.emit("Concat", batch, at.const([1, 1], np.int64), axis=0))
        return at.emit("MatMul", matrix, x)
    order = [*(other for other in range(rank) if other != number), number]
    result = at.emit("MatMul", at.emit("Transpose", x, perm=order), at.cast(summed, dtype))
    return at.emit("Transpose", result, perm=[order.index(other) for other in range(rank)])


@rules.before(10, "IsInf")
def is_infinite(at: Rewriter) -> ir.Value:
    """Find elements beyond the largest number."""
    x = at.input(0)
    limit = float(np.finfo(at.dtype(x).numpy()).max)
    found = at.const(False, BOOL)  # noqa: FBT003 - a tensor's element
    if at.integer("detect_positive", 1):
        found = at.emit("Or", found, at.emit("Greater", x, at.const(limit, at.dtype(x))))
    if at.integer("detect_negative", 1):
        found = at.emit("Or", found, at.emit("Less", x, at.const(-limit, at.dtype(x))))
    return found

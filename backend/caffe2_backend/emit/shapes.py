"""Sizes and shapes, known now or computed at run time. A size is an int, or a value int64 [] (known) or [1] (blob)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_bridge.bounds import MAX_FOLDED
from caffe2_frontend.interop.operator_base import WithinRank
from caffe2_frontend.interop.types import BOOL, INT64

Size = Value | int


def known_size(size: Size) -> int | None:
    """Return a size as an integer where it is known."""
    return size if isinstance(size, int) else size.integer


def as_value(op: Op, size: Size) -> Value:
    """Return a size as a value."""
    return op.const(size, INT64) if isinstance(size, int) else size


def as_vector(op: Op, size: Size) -> Value:
    """Return a size as a value of shape [1]."""
    known = known_size(size)
    return as_value(op, size) if known is None else op.const([known], INT64)


def shape_of(op: Op, value: Value) -> Value:
    """Return the dims of a value, int64 [rank]; the empty list of a scalar."""
    return op.emit("Shape", value) if op.rank(value) else op.const(np.zeros(0), INT64)


def dim_of(op: Op, value: Value, axis: int) -> Value:
    """Return one dim of a value, computed at run time, int64 [1]."""
    return op.emit("Shape", value, axes=[axis])


class OperandDims(WithinRank, list[Value]):
    """The dims of an operand, each known or a blob."""


def dims_of(op: Op, value: Value, rank: int | None = None) -> list[Value]:
    """Return the dims of a value: known ones, and blobs for those that are known at run time only.

    Reading a dim beyond the rank refuses the operator, and so does a rank other than the one that is given.
    """
    dims = op.shape(value)
    if rank is not None and len(dims) != rank:
        op.unsupported(f"an operand must have rank {rank}, not {len(dims)}", code="invalid-operands")
    return OperandDims(
        op.const(dim, INT64) if isinstance(dim, int) else dim_of(op, value, i) for i, dim in enumerate(dims)
    )


def size_list(op: Op, sizes: Sequence[Size]) -> Value:
    """Return a list of sizes, int64 [n]; a blob may hold several of them."""
    values: list[Value] = []
    run: list[int] = []
    for size in sizes:
        known = known_size(size) if isinstance(size, int) or size.array is None or size.array.size == 1 else None
        if known is not None:
            run.append(known)
            continue
        if run:
            values.append(op.const(run, INT64))
            run = []
        values.append(as_value(op, size))
    if run:
        values.append(op.const(run, INT64))
    return values[0] if len(values) == 1 else op.emit("Concat", *values, outputs=2, axis=0)[0]


def reshape(op: Op, value: Value, sizes: Sequence[Size]) -> Value:
    """Return a value in another shape; 0 keeps a dim and -1 is inferred from the number of elements."""
    known = [size for size in map(known_size, sizes) if size is not None]
    if len(known) == len(sizes):
        return value.reshape(known)
    return op.emit("Reshape", value, size_list(op, sizes), outputs=2)[0]


def reshape_exactly(op: Op, value: Value, shape: Value) -> Value:
    """Return a value in the shape that a list holds, int64 [n]; the list may be empty, and its dims may be zero.

    Caffe2's Reshape reads a dim of zero as that of the operand, and neither it nor a fill accepts an empty list. Hence
    a template of that shape with a dim of 1 in front, which ResizeLike follows and Squeeze removes.
    """
    template = op.emit("ConstantFill", size_list(op, [1, shape]), input_as_shape=1, dtype=BOOL, value=0)
    return op.emit("Squeeze", op.emit("ResizeLike", value, template), dims=[0])


def product(op: Op, sizes: Sequence[Size]) -> Value:
    """Return the product of sizes."""
    known, blob = 1, None
    for size in sizes:
        number = known_size(size)
        if number is not None:
            known *= number
        else:
            assert isinstance(size, Value)
            blob = size if blob is None else blob * size
    if blob is None:
        return op.const(known, INT64)
    return blob if known == 1 else blob * op.const([known], INT64)


def product_of_list(op: Op, sizes: Value, count: int) -> Value:
    """Return the product of the elements of a list of ``count`` sizes, int64 [1]."""
    if not count:
        return op.const([1], INT64)
    elements = [op.emit("Slice", sizes, starts=[i], ends=[i + 1]) for i in range(count)]
    return product(op, elements)


def arange(op: Op, size: Size) -> Value:
    """Return the integers from 0 up to a size, int64 [size]."""
    known = known_size(size)
    if known is not None and known <= MAX_FOLDED:
        return op.const(np.arange(known), INT64)
    return op.emit("Range", op.const([0], INT64), as_value(op, size), op.const([1], INT64))

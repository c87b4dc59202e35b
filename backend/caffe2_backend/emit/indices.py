"""Where entries and rows lie in an operand whose dims are taken together."""

from __future__ import annotations

import math

import numpy as np

from caffe2_backend.emit.shapes import Part, dim_of, dim_parts, joined, places_along, product, reshaped, scalar
from caffe2_backend.lowering.op import INT64, Op


def indices(op: Op, index: int, axis: int, of: int = 0) -> str:
    """Indices into an axis, int64, those below zero counted from its end."""
    known = op.known(index)
    size = op.dim(axis, of)
    if known is not None and size is not None:
        return op.const(np.where(known < 0, known + size, known), np.int64)
    if known is not None and (known >= 0).all():
        return op.input(index)
    whole = op.input(index) if op.dtype(index) == INT64 else op.cast(op.input(index), INT64)
    length = dim_of(op, op.input(of), axis) if size is None else op.const([size], np.int64)
    below = op.cast(op.emit("LT", whole, scalar(op, 0, INT64)), INT64)
    return op.emit(
        "Add",
        whole,
        op.emit("Mul", below, op.reshape(length, []))
        if size is not None or op.rank(index) == 0
        else op.emit("Mul", below, length),
    )


def flat_places(op: Op, axis: int) -> str:
    """Where the entries at input 1 lie in the operand, counted through; int64 of the indices' shape."""
    data, where = dim_parts(op, 0), op.dims(1)
    if where is None or op.dims(0) is None:
        return _flat_places_at_run_time(op, axis, data)
    strides = [math.prod(int(size) for size in data[i + 1 :]) for i in range(len(data))]
    base = np.zeros(where, np.int64)
    for i, stride in enumerate(strides):
        if i != axis:
            base += np.arange(where[i]).reshape([-1 if k == i else 1 for k in range(len(where))]) * stride
    scaled = op.emit("Mul", indices(op, 1, axis), scalar(op, strides[axis], INT64))
    return op.emit("Add", scaled, op.const(base))


def _flat_places_at_run_time(op: Op, axis: int, data: list[Part]) -> str:
    where = dim_parts(op, 1)
    places = _times(op, indices(op, 1, axis), product(op, data[axis + 1 :]))
    for i, size in enumerate(where):
        if i != axis:
            along = _times(op, places_along(op, size), product(op, data[i + 1 :]))
            places = op.emit("Add", places, reshaped(op, along, [size, *[1] * (len(where) - 1 - i)]))
    return places


def row_places(op: Op, batch: int = 0) -> tuple[str, int]:
    """The rows that the last axis of input 1 names, and how many axes of the operand they run through.

    The first ``batch`` axes of both operands go together.
    """
    data, where = dim_parts(op, 0), dim_parts(op, 1)
    depth = where[-1]
    if not isinstance(depth, int):
        op.unsupported("indices of unknown depth", code="needs-shape")
    named = data[batch : batch + depth]
    sizes = joined(op, named)
    strides = joined(op, [product(op, named[i + 1 :]) for i in range(depth)])
    given = op.input(1) if op.dtype(1) == INT64 else op.cast(op.input(1), INT64)
    below = op.cast(op.emit("LT", given, scalar(op, 0, INT64)), INT64)
    positive = op.emit("Add", given, op.emit("Mul", below, sizes))
    places = op.emit("ReduceSum", op.emit("Mul", positive, strides), axes=[len(where) - 1], keepdims=0)
    for i, size in enumerate(where[:batch]):
        along = _times(op, places_along(op, size), product(op, [*data[i + 1 : batch], *named]))
        places = op.emit("Add", places, reshaped(op, along, [size, *[1] * (len(where) - 2 - i)]))
    return places, batch + depth


def _times(op: Op, blob: str, number: Part) -> str:
    return op.emit("Mul", blob, op.const([number], np.int64) if isinstance(number, int) else number)

"""Shape arithmetic: evaluated at conversion where dims are known, by emitted nodes where they are not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.lowering.op import Op, Value

# A size: an integer known at conversion, or an int64 tensor [1] that holds it at run time.
Size = int | Value

# The end of a slice that has no end.
END: Final = int(np.iinfo(np.int64).max)
# The largest range of indices that is a constant of the model.
_MAX_CONSTANT_INDICES: Final = 1 << 20


def size(op: Op, x: Value, axis: int) -> Size:
    """Return the size of ``x`` along ``axis`` (negative from the end).

    A symbolic dim that a model input has too is read from that input, so that ``x`` need not be computed for it.
    """
    dim = op.shape(x)[axis]
    if isinstance(dim, int):
        return dim
    if dim.value is not None and dim.value in op.scope.sizes:
        x, axis = op.scope.sizes[dim.value]
    axis = op.axis(axis, op.rank(x))
    return op.emit("Shape", x, start=axis, end=axis + 1)


def sizes(op: Op, x: Value, start: int = 0, end: int | None = None) -> list[Size]:
    """Return the sizes of ``x`` along the axes [``start``, ``end``)."""
    return [size(op, x, axis) for axis in range(op.rank(x))[start:end]]


def vector(op: Op, values: Sequence[Size]) -> Value:
    """Concatenate sizes into an int64 vector, a constant if all of them are known."""
    parts: list[Value] = []
    known: list[int] = []
    for value in values:
        if isinstance(value, int):
            known.append(value)
            continue
        if known:
            parts.append(op.const(known, np.int64))
            known = []
        elif parts and (joined := _join_sizes(op, parts[-1], value)) is not None:
            parts[-1] = joined
            continue
        parts.append(value)
    if known or not parts:
        parts.append(op.const(known, np.int64))
    return parts[0] if len(parts) == 1 else op.emit("Concat", *parts, axis=0)


def _join_sizes(op: Op, first: Value, second: Value) -> Value | None:
    """Return the sizes of consecutive axes of one value by one Shape; None if they are others, or read."""
    nodes = [value.producer() for value in (first, second)]
    if any(node is None or standard_type(node) != "Shape" for node in nodes) or first.uses() or second.uses():
        return None
    (x, start, middle), (y, next_start, end) = (_measured(node) for node in nodes if node is not None)
    return op.emit("Shape", x, start=start, end=end) if x is y and middle == next_start and end is not None else None


def _measured(node: ir.Node) -> tuple[Value | None, int, int | None]:
    """Return what a Shape measures, and its bounds."""
    return node.inputs[0], node.attributes.get_int("start", 0), node.attributes.get_int("end", None)


def size_vector(op: Op, x: Value, axis: int) -> Value:
    """Return the size of ``x`` along ``axis`` as an int64 vector [1], a constant if it is known."""
    return vector(op, [size(op, x, axis)])


def reshape(op: Op, x: Value, dims: Sequence[Size]) -> Value:
    """Reshape ``x`` to the given sizes, one of which may be -1.

    Zero is a size here, not ONNX's "copy the input's dim"; a dim of ``x`` that stays is given by :func:`size`. ONNX
    does not allow -1 together with zeros as sizes, so that with -1 no size may become zero at run time.
    """
    shape: list[int | None] = [d if isinstance(d, int) and d >= 0 else None for d in dims]
    may_be_zero = not any(isinstance(d, int) and d == -1 for d in dims) and None in shape
    allow_zero = 1 if may_be_zero or 0 in shape else None
    return op.emit("Reshape", x, vector(op, dims), allowzero=allow_zero, shape=shape)


def product(op: Op, values: Sequence[Size]) -> Size:
    """Return the product of sizes."""
    known = 1
    unknown: list[Value] = []
    for value in values:
        if isinstance(value, int):
            known *= value
        else:
            unknown.append(value)
    if not unknown:
        return known
    total = unknown[0]
    for value in unknown[1:]:
        total = op.emit("Mul", total, value)
    return total if known == 1 else op.emit("Mul", total, op.const([known], np.int64))


def indices(op: Op, count: Size) -> Value:
    """Return the int64 vector 0, 1, ..., ``count`` - 1."""
    if isinstance(count, int) and count <= _MAX_CONSTANT_INDICES:
        return op.const(np.arange(count), np.int64)
    count = op.const([count], np.int64) if isinstance(count, int) else count
    return op.emit("Range", op.const(0, np.int64), squeeze(op, count, [0]), op.const(1, np.int64))


def known_size(op: Op, x: Value) -> int | None:
    """Return the number of elements of ``x`` if it is known at conversion, else None."""
    dims = list(op.shape(x))
    known = [d for d in dims if isinstance(d, int)]
    return math.prod(known) if len(known) == len(dims) or 0 in known else None


def unsqueeze(op: Op, x: Value, axes: Sequence[int]) -> Value:
    """Insert dims of size one into ``x`` at ``axes`` of the result."""
    return op.emit("Unsqueeze", x, op.const(list(axes), np.int64)) if axes else x


def squeeze(op: Op, x: Value, axes: Sequence[int]) -> Value:
    """Remove the dims of size one of ``x`` at ``axes``."""
    return op.emit("Squeeze", x, op.const(list(axes), np.int64)) if axes else x


def broadcast_over_rows(op: Op, values: Value, x: Value) -> Value:
    """Return ``values`` [N] as [N, 1, ...], which broadcasts over the rows of ``x`` [N, ...]."""
    return unsqueeze(op, values, range(1, op.rank(x)))


def broadcast_over_channels(op: Op, values: Value, x: Value) -> Value:
    """Return ``values`` [C] as [C, 1, ...], which broadcasts over the channels of ``x`` [N, C, ...]."""
    return unsqueeze(op, values, range(1, op.rank(x) - 1))


def as_vector(op: Op, x: Value) -> Value:
    """Return all elements of ``x``, as a vector."""
    return x if op.rank(x) == 1 else reshape(op, x, [-1])


def leading(op: Op, x: Value, count: Size) -> Value:
    """Return the first ``count`` elements of ``x`` in memory, as a vector: what kernels read that ignore ranks."""
    if op.rank(x) == 1 and isinstance(count, int) and op.static_dim(x, 0) == count:
        return x
    shape = [count if isinstance(count, int) else None]
    return op.emit("Slice", as_vector(op, x), op.const([0], np.int64), vector(op, [count]), shape=shape)


def concat_flat(op: Op, values: Sequence[Value]) -> Value:
    """Return the elements of all values, one value after another, as a vector."""
    flat = [reshape(op, value, [-1]) for value in values]
    return flat[0] if len(flat) == 1 else op.emit("Concat", *flat, axis=0)


def flatten(op: Op, x: Value, axis: int) -> Value:
    """Return ``x`` as a matrix: the dims before ``axis`` become its rows, the others its columns."""
    return x if op.rank(x) == 2 and axis == 1 else op.emit("Flatten", x, axis=axis)


def transpose_matrix(op: Op, w: Value) -> Value:
    """Transpose a matrix; of a transposed one, return the original."""
    node = w.producer()
    if node is not None and standard_type(node) == "Transpose" and op.rank(w) == 2 and node.inputs[0] is not None:
        op.looks_behind(w)
        return node.inputs[0]
    return op.emit("Transpose", w, perm=[1, 0])


def slice_axis(op: Op, x: Value, axis: int, start: int, end: int) -> Value:
    """Return ``x[start:end]`` along one axis; ``end`` may exceed the dim."""
    return op.emit("Slice", x, *(op.const([v], np.int64) for v in (start, end, axis)))


def reverse_rows(op: Op, x: Value) -> Value:
    """Return ``x`` with its rows in reverse order."""
    start, end, axis, step = (op.const([value], np.int64) for value in (-1, -END, 0, -1))
    return op.emit("Slice", x, start, end, axis, step, shape=x.shape)


def cast(op: Op, x: Value, dtype: ir.DataType) -> Value:
    """Cast ``x`` to ``dtype``, unless it has that element type."""
    return x if op.dtype(x) == dtype else op.emit("Cast", x, to=int(dtype))


def quotient(op: Op, value: Size, divisor: int) -> Size:
    """Return ``value // divisor``."""
    return value // divisor if isinstance(value, int) else op.emit("Div", value, op.const([divisor], np.int64))


def no_rows(op: Op, row: Value) -> Value:
    """Return an empty tensor [0, ...] for rows like ``row``; dims that are unknown at conversion become 1."""
    dims = [dim if isinstance(dim, int) else 1 for dim in row.shape or ()]
    fill = ir.Tensor(np.zeros(1, op.dtype(row).numpy()))
    return op.emit("ConstantOfShape", op.const([0, *dims], np.int64), value=fill)

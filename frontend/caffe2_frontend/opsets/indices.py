"""Adapters of operators that read and write elements at indices."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.interop.types import INT64
from caffe2_frontend.opsets.rewriter import Rewriter
from caffe2_frontend.opsets.rules import Rules

rules = Rules()

_FAR: Final = np.iinfo(np.int64).max


@rules.before(10, "ReverseSequence")
def reverse_sequence(at: Rewriter) -> ir.Value:
    """Gather the rows of all sequences, in one axis, at their mirrored positions."""
    x, lengths = at.input(0), at.input(1)
    time, batch = at.integer("time_axis", 0), at.integer("batch_axis", 1)
    rank = at.rank(x)
    order = [time, batch, *(axis for axis in range(rank) if axis not in (time, batch))]
    rows = at.emit("Transpose", x, perm=order)
    shape = at.emit("Shape", rows)
    steps, count = (at.element(shape, axis) for axis in (0, 1))
    zero, one = at.const(0, np.int64), at.const(1, np.int64)
    t = at.emit("Unsqueeze", at.emit("Range", zero, steps, one), at.const([1], np.int64))
    n = at.emit("Unsqueeze", at.emit("Range", zero, count, one), at.const([0], np.int64))
    ends = at.emit("Unsqueeze", at.cast(lengths, INT64), at.const([0], np.int64))
    mirrored = at.emit("Sub", at.emit("Sub", ends, one), t)
    t = at.emit("Where", at.emit("Less", t, ends), mirrored, t)
    flat = at.emit("Add", at.emit("Mul", t, count), n)
    rest = at.part(shape, 2, _FAR)
    flat_shape = at.emit("Concat", at.const([-1], np.int64), rest, axis=0)
    if any(not isinstance(d, int) or d == 0 for d in x.shape or ()):
        size = at.emit("Reshape", at.emit("Mul", steps, count), at.const([1], np.int64))
        flat_shape = at.emit("Concat", size, rest, axis=0)
    gathered = at.emit(
        "Gather",
        at.emit("Reshape", rows, flat_shape, allowzero=1),
        at.emit("Reshape", flat, at.const([-1], np.int64)),
        axis=0,
    )
    back = at.emit("Reshape", gathered, shape, allowzero=1)
    return at.emit("Transpose", back, perm=[order.index(axis) for axis in range(rank)])


def _strides(at: Rewriter, shape: ir.Value, first: int, last: int) -> list[ir.Value]:
    """Return the product of the dims behind each axis of [first, last), up to ``last``, as scalars."""
    one = at.const(1, np.int64)
    strides = [one]
    for axis in range(last - 1, first, -1):
        dim = at.element(shape, axis)
        strides.insert(0, at.emit("Mul", strides[0], dim))
    return strides


@rules.before(11, "GatherElements")
def gather_elements(at: Rewriter) -> ir.Value:
    """Gather elements of the flat tensor, at positions made of the coordinates of each index."""
    x, indices = at.input(0), at.input(1)
    rank = at.rank(x)
    axis = at.integer("axis", 0) % rank
    shape = at.emit("Shape", x)
    size = at.element(shape, axis)
    wanted = at.cast(indices, INT64)
    zero, one = at.const(0, np.int64), at.const(1, np.int64)
    wanted = at.from_front(wanted, size)
    strides = _strides(at, shape, 0, rank)
    flat = at.emit("Mul", wanted, strides[axis])
    reach = at.emit("Shape", indices)
    for other in (number for number in range(rank) if number != axis):
        count = at.element(reach, other)
        line = at.emit("Mul", at.emit("Range", zero, count, one), strides[other])
        dims = [1] * rank
        dims[other] = -1
        flat = at.emit("Add", flat, at.emit("Reshape", line, at.const(dims, np.int64)))
    return at.emit("Gather", at.emit("Reshape", x, at.const([-1], np.int64)), flat, axis=0)


@rules.before(12, "GatherND")
def gather_nd_of_batches(at: Rewriter) -> ir.Value | None:
    """Begin each index with its batch where there are batch dims; without them it is as before."""
    batches = at.integer("batch_dims", 0)
    at.node.attributes.pop("batch_dims", None)
    if not batches:
        return None
    x, indices = at.input(0), at.input(1)
    reach = at.emit("Shape", indices)
    zero, one = at.const(0, np.int64), at.const(1, np.int64)
    head = at.part(reach, 0, -1)
    column = at.emit("Concat", head, at.const([1], np.int64), axis=0)
    parts = []
    for axis in range(batches):
        count = at.element(reach, axis)
        dims = [1] * at.rank(indices)
        dims[axis] = -1
        line = at.emit("Reshape", at.emit("Range", zero, count, one), at.const(dims, np.int64))
        parts.append(at.emit("Expand", line, column))
    whole = at.emit("Concat", *parts, indices, axis=-1)
    depth = indices.shape[-1] if indices.shape is not None else None
    if isinstance(depth, int) and indices.shape is not None:
        whole.shape = ir.Shape([*indices.shape[:-1], batches + depth])
    return at.emit("GatherND", x, whole)


@rules.before(11, "GatherND")
def gather_nd(at: Rewriter) -> ir.Value:
    """Gather rows of the tensor with its first dims taken together, at positions made of the indices."""
    x, indices = at.input(0), at.input(1)
    depth = indices.shape[-1] if indices.shape is not None else None
    if not isinstance(depth, int):
        at.refuse("the last dim of its indices is unknown")
    rows, flat = _flat_rows(at, x, indices, depth)
    if at.dtype(x) == ir.DataType.STRING and at.rank(x) > depth:
        return _gathered_texts(at, rows, flat)
    return at.emit("Gather", rows, flat, axis=0)


def _gathered_texts(at: Rewriter, rows: ir.Value, flat: ir.Value) -> ir.Value:
    """Gather each element of rows of texts: onnxruntime's Gather copies no more than the first text of a row."""
    rest = at.part(at.emit("Shape", rows), 1, _FAR)
    width = at.emit("ReduceProd", rest, keepdims=0)
    reach = at.emit("Shape", flat)
    starts = at.emit("Mul", at.emit("Reshape", flat, at.const([-1, 1], np.int64)), width)
    places = at.emit("Add", starts, at.emit("Range", at.const(0, np.int64), width, at.const(1, np.int64)))
    texts = at.emit("Gather", at.emit("Reshape", rows, at.const([-1], np.int64)), places, axis=0)
    return at.emit("Reshape", texts, at.emit("Concat", reach, rest, axis=0), allowzero=1)


def _flat_rows(at: Rewriter, x: ir.Value, indices: ir.Value, depth: int) -> tuple[ir.Value, ir.Value]:
    """Return ``x`` [d1, ..., d_depth, ...] as rows, and the row of each index [..., depth]."""
    shape = at.emit("Shape", x)
    strides = _strides(at, shape, 0, depth)
    zero = at.const(0, np.int64)
    flat = None
    for axis in range(depth):
        size = at.element(shape, axis)
        part = at.emit("Gather", indices, at.const(axis, np.int64), axis=-1)
        part = at.from_front(part, size)
        part = at.emit("Mul", part, strides[axis])
        flat = part if flat is None else at.emit("Add", flat, part)
    if flat is None:
        at.refuse("its indices have no columns")
    count = at.emit("Mul", strides[0], at.emit("Gather", shape, zero, axis=0))
    rest = at.part(shape, depth, _FAR)
    rows = at.emit("Concat", at.emit("Reshape", count, at.const([1], np.int64)), rest, axis=0)
    return at.emit("Reshape", x, rows, allowzero=1), flat


_COMBINE: Final = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}


@rules.before(18, "ScatterElements", "ScatterND")
def scatter_with_extrema(at: Rewriter) -> ir.Value | None:
    """Combine elements by maxima and minima, which were not among the reductions."""
    return _combined(at) if at.text("reduction", "none") in {"max", "min"} else None


@rules.before(16, "ScatterElements", "ScatterND")
def scatter_without_reduction(at: Rewriter) -> ir.Value | None:
    """Combine elements by other nodes: there was no reduction."""
    if at.text("reduction", "none") == "none":
        at.node.attributes.pop("reduction", None)
        return None
    return _combined(at)


def _combined(at: Rewriter) -> ir.Value:
    return _scatter_in_turn(at) if at.node.op_type == "ScatterElements" else _scatter_rows(at)


def _scatter_in_turn(at: Rewriter) -> ir.Value:
    """Scatter one slice of the indices after the other, each combined with the elements that it finds.

    Along the axis of the scatter, a slice of one index a line never writes an element twice: its positions differ in
    another axis.
    """
    x, indices, updates = (at.input(index) for index in range(3))
    axis = at.integer("axis", 0) % at.rank(x)
    op_type = _COMBINE[at.text("reduction", "none")]
    count = at.element(at.emit("Shape", indices), axis)

    def step(number: ir.Value, values: ir.Value) -> ir.Value:
        position = at.emit("Reshape", number, at.const([1], np.int64))
        where, new = (at.emit("Gather", value, position, axis=axis) for value in (indices, updates))
        combined = at.emit(op_type, at.emit("GatherElements", values, where, axis=axis), new)
        return at.emit("ScatterElements", values, where, combined, axis=axis)

    return at.loop(count, x, step)


@rules.before(11, "ScatterElements")
def scatter_elements(at: Rewriter) -> ir.Value:
    """Emit Scatter, as it was called, without negative indices and axes."""
    x, indices, updates = (at.input(index) for index in range(3))
    axis = at.integer("axis", 0) % at.rank(x)
    size = at.element(at.emit("Shape", x), axis)
    wanted = at.cast(indices, INT64)
    wanted = at.from_front(wanted, size)
    return at.emit_old("Scatter", x, wanted, updates, like=x, axis=axis)


@rules.before(11, "ScatterND")
def scatter_nd(at: Rewriter) -> ir.Value:
    """Write rows element by element: ScatterND came later."""
    return _scatter_rows(at)


def _scatter_rows(at: Rewriter) -> ir.Value:
    """Write rows of the tensor, with its first dims taken together, element by element."""
    x, indices, updates = (at.input(index) for index in range(3))
    depth = indices.shape[-1] if indices.shape is not None else None
    if not isinstance(depth, int):
        at.refuse("the last dim of its indices is unknown")
    rows, flat = _flat_rows(at, x, indices, depth)
    width = at.rank(x) - depth
    shape = at.emit("Shape", rows)
    flat = at.emit("Reshape", flat, at.const([-1], np.int64))
    rest = at.part(shape, 1, _FAR)
    count = at.emit("Shape", flat)
    new_shape = at.emit("Concat", count, rest, axis=0)
    new = at.emit("Reshape", updates, new_shape, allowzero=1)
    column = at.emit("Reshape", flat, at.const([-1] + [1] * width, np.int64))
    positions = at.emit("Expand", column, new_shape)
    written = at.emit("ScatterElements", rows, positions, new, axis=0, reduction=at.text("reduction", "none"))
    return at.emit("Reshape", written, at.emit("Shape", x), allowzero=1)

"""Writing at indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from caffe2_backend.emit.broadcast import elementwise_max, elementwise_min
from caffe2_backend.emit.conversion import computable
from caffe2_backend.emit.indices import flat_indices, non_negative, row_indices
from caffe2_backend.emit.loops import while_loop
from caffe2_backend.emit.selection import concat, gather, inverse, scatter_rows, transpose
from caffe2_backend.emit.shapes import Size, arange, as_vector, dims_of, product, reshape, reshape_exactly, shape_of
from caffe2_backend.emit.unsigned import bits_of
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import NUMBERS, UNSIGNED
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import FLOAT, FLOAT16, INT32, INT64

family = Family("scatter")

Combine = Callable[[Op, Value, Value], Value]
_REDUCTIONS: Final[dict[str, Combine]] = {
    "add": lambda _, old, new: old + new,
    "mul": lambda _, old, new: old * new,
    "max": elementwise_max,
    "min": elementwise_min,
}


@family.converts("ScatterElements", "Scatter")
def scatter_elements(op: Op) -> Value:
    """``ScatterElements(data, indices, updates; axis=0, reduction="none") -> output``: ScatterAssign into a copy."""
    data = op.input(0)
    axis = op.axis(op.args.integer("axis", default=0), op.rank(data))
    rows = flat_indices(op, data, op.input(1), axis).reshape([-1])
    return _scatter(op, [product(op, dims_of(op, data))], rows, [-1])


@family.converts("ScatterND")
def scatter_nd(op: Op) -> Value:
    """``ScatterND(data, indices, updates; reduction="none") -> output``: ScatterAssign of rows into a copy."""
    data = op.input(0)
    rows, depth = row_indices(op, data, op.input(1))
    dims = dims_of(op, data)
    width = product(op, dims[depth:])
    return _scatter(op, [product(op, dims[:depth]), width], rows.reshape([-1]), [-1, width])


def _scatter(op: Op, shape: Sequence[Value], indices: Value, updates_shape: Sequence[Size]) -> Value:
    """Return the operand, reshaped to rows, with the rows at indices replaced by the updates, or combined with them."""
    reduction, data = op.args.text("reduction", default="none"), op.input(0)
    if reduction not in ("none", *_REDUCTIONS):
        names = ", ".join(("none", *_REDUCTIONS))
        op.unsupported(f"reduction must be one of {names}, not {reduction!r}", code="invalid-argument")
    if reduction in ("max", "min") and op.dtype(data) in UNSIGNED:
        op.require(data, *NUMBERS)  # the bits have another order
    held = _writable(op, data)
    flat = reshape(op, op.emit("Copy", held), shape)
    updates = reshape(op, _writable(op, op.input(2)), updates_shape)
    count = shape[0].integer
    if reduction == "none":
        flat = scatter_rows(op, flat, shape, indices, updates)
    elif reduction == "add" and held.dtype == FLOAT and count is not None and count > 0:
        segments = concat(op, [arange(op, count).cast(INT32), indices.cast(INT32)], 0)
        flat = op.emit("UnsortedSegmentSum", concat(op, [flat, updates], 0), segments)
    else:
        flat = _combine_rows(op, flat, shape, indices, updates, _REDUCTIONS[reduction])
    restored = (
        reshape(op, flat, dims_of(op, data)) if op.static_shape(data) else reshape_exactly(op, flat, shape_of(op, held))
    )
    return restored if data.dtype in (*NUMBERS, *UNSIGNED) else restored.cast(data.dtype)


def _writable(op: Op, value: Value) -> Value:
    """Return an operand in a type in which Caffe2 writes at indices; others than numbers are written as int32."""
    value = bits_of(op, value)
    if op.dtype(value) in (FLOAT16, *NUMBERS):
        return computable(op, value)
    return value.cast(INT32)


def _combine_rows(op: Op, flat: Value, shape: Sequence[Value], indices: Value, rows: Value, combine: Combine) -> Value:
    """Combine rows of the given shape with updates where an index may be given more than once.

    The update that has k earlier ones with the same index has its turn in round k, so that the indices of a round are
    different.
    """
    numbers = arange(op, op.emit("Shape", indices))
    is_earlier = indices.reshape([-1, 1]).equals(indices) & (numbers.reshape([-1, 1]) > numbers)
    turn_of = op.emit("ReduceSum", is_earlier.cast(INT64), axes=[1], keepdims=0)
    last = op.emit("ReduceMax", turn_of, axes=[0], keepdims=1).reshape([1])

    def step(made: Value, turn: Value) -> tuple[Value, Value, Value]:
        chosen = op.emit("BooleanMask", numbers, turn_of.equals(turn))
        targets = gather(op, indices, 0, chosen)
        combined = combine(op, gather(op, made, 0, targets), gather(op, rows, 0, chosen))
        made = scatter_rows(op, op.emit("Copy", made), shape, targets, combined)
        following = turn + op.const([1], INT64)
        return (following <= last).reshape([]), made, following

    first = op.const([0], INT64)
    return while_loop(op, first <= last, [flat, first], step)[0]


@family.converts("TensorScatter")
def tensor_scatter(op: Op) -> Value:
    """``TensorScatter(past, update, write_indices=None; axis=-2, mode="linear") -> present``: ScatterAssign.

    Each item of the batch names where its rows are written; with mode circular they continue at the start of the axis.
    """
    past, update = op.input(0), op.input(1)
    rank = op.rank(past)
    axis = op.axis(op.args.integer("axis", default=-2), rank)
    circular = op.args.choice("mode", "linear", "circular") == "circular"
    if not axis:
        op.unsupported("axis must not be the batch axis (0)", code="invalid-argument")
    order = [0, axis, *(i for i in range(1, rank) if i != axis)]
    dims, update_dims = ([dims_of(op, value)[i] for i in order] for value in (past, update))
    items, size = reshape(op, arange(op, dims[0]), [dims[0], 1]), as_vector(op, dims[1])
    steps = arange(op, update_dims[1])
    if op.has_input(2):
        steps = reshape(op, non_negative(op, op.input(2), past, axis), [dims[0], 1]) + steps
    if circular:
        steps = steps - steps.quotient(size) * size
    rows = (items * size + steps).reshape([-1])
    width = product(op, dims[2:])
    shape = [product(op, dims[:2]), width]
    flat = reshape(op, op.emit("Copy", transpose(op, _writable(op, past), order)), shape)
    updates = reshape(op, transpose(op, _writable(op, update), order), [-1, width])
    present = transpose(op, reshape(op, scatter_rows(op, flat, shape, rows, updates), dims), inverse(order))
    return present if past.dtype in (*NUMBERS, *UNSIGNED) else present.cast(past.dtype)

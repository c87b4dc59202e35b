"""Order: indices of extremes, the largest elements, distinct elements, and running sums and products.

Where Caffe2 has no operator, every element is compared with every other: [n, 1] with [1, n]. How many elements come
before one is then its rank in the order.
"""

from __future__ import annotations

from caffe2_backend.emit.conversion import cast_back, computable
from caffe2_backend.emit.fill import full
from caffe2_backend.emit.loops import prefix_reduce
from caffe2_backend.emit.masks import collapse_around_axis, integer_list, non_negative_axes
from caffe2_backend.emit.selection import concat, gather, inverse, reverse, scatter_rows, slice_axis, transpose
from caffe2_backend.emit.shapes import Size, arange, as_vector, dim_of, dims_of, product, reshape, reshape_exactly
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import BOOL, FLOAT, INT32, INT64

family = Family("sorting")


@family.converts("ArgMax", "ArgMin")
def arg_extreme(op: Op) -> Value:
    """``ArgMax(data; axis=0, keepdims=1, select_last_index=0) -> reduced``, ``ArgMin``: the operator of that name.

    The last such index is size - 1 less the first of the reversed axis.
    """
    data = op.input(0)
    axis = op.axis(op.args.integer("axis", default=0), op.rank(data))
    keep = op.args.flag("keepdims", default=True)
    value = computable(op, data)
    if not op.args.flag("select_last_index", default=False):
        return op.emit(op.type, value, axis=axis, keepdims=int(keep))
    size = dims_of(op, data)[axis]
    first = op.emit(op.type, reverse(op, value, axis, size), axis=axis, keepdims=1)
    last = (size if size.array is not None else as_vector(op, size)) - 1 - first
    return last if keep else op.emit("Squeeze", last, dims=[axis])


@family.converts("TopK")
def top_k(op: Op) -> tuple[Value, Value]:
    """``TopK(X, K; axis=-1, largest=1, sorted=1) -> values, indices``: TopK of floats and a known K, else by ranks."""
    op.args.ignore("sorted")
    data, k = op.input(0), op.known_number(op.input(1))
    axis = op.axis(op.args.integer("axis", default=-1), op.rank(data))
    smallest = not op.args.flag("largest", default=True)
    if k == 0:
        sizes = [0 if i == axis else size for i, size in enumerate(dims_of(op, data))]
        return full(op, sizes, op.dtype(data), 0), full(op, sizes, INT64, 0)
    if op.dtype(data) != FLOAT or k is None:
        return _top_by_rank(op, data, axis, smallest=smallest)
    values, indices = op.emit("TopK", -data if smallest else data, outputs=2, k=int(k), axis=axis)
    return (-values if smallest else values), indices


def _top_by_rank(op: Op, data: Value, axis: int, *, smallest: bool) -> tuple[Value, Value]:
    """Return the elements of the first k ranks; before one are all larger ones, and the equal ones of lower index.

    The order is the inverse permutation of the ranks: index i is written at position rank(i).
    """
    dims, rank = dims_of(op, data), op.rank(data)
    order = [i for i in range(rank) if i != axis] + [axis]
    size = dims[axis]
    value = computable(op, data)
    rows = product(op, [dims[i] for i in order[:-1]])
    table = transpose(op, value, order)
    one, other = reshape(op, table, [rows, size, 1]), reshape(op, table, [rows, 1, size])
    positions = arange(op, size)
    is_earlier = reshape(op, positions, [size, 1]) > positions
    is_ahead = other < one if smallest else other > one
    is_before = is_ahead | (one.equals(other) & is_earlier)
    ranks = op.emit("ReduceSum", is_before.cast(INT64), axes=[2], keepdims=0)
    starts = reshape(op, arange(op, rows), [rows, 1]) * as_vector(op, size)
    targets = (ranks + starts).reshape([-1])
    indices = ((ranks - ranks) + positions).reshape([-1])
    count = product(op, [rows, size])
    sorted_ = reshape(op, scatter_rows(op, op.emit("Copy", indices), [count], targets, indices), [rows, size])
    k = integer_list(op, op.input(1))
    best = slice_axis(op, sorted_, 1, 0, k)
    found = gather(op, table.reshape([-1]), 0, best + starts)
    shape: list[Size] = [*(dims[i] for i in order[:-1]), k]
    values, chosen = (transpose(op, reshape(op, made, shape), inverse(order)) for made in (found, best))
    return cast_back(op, values, data), chosen


@family.converts("Unique")
def unique(op: Op) -> tuple[Value, Value, Value, Value]:
    """``Unique(X; axis=None, sorted=1) -> Y, indices, inverse_indices, counts``: comparisons of all rows.

    A row is kept that no earlier row equals. It comes behind the kept rows that are less (``sorted``), or that are
    earlier.
    """
    data = op.input(0)
    dims = dims_of(op, data)
    has_axis = "axis" in op.args
    axis = op.axis(op.args.integer("axis"), op.rank(data)) if has_axis else 0
    order = [axis, *(i for i in range(op.rank(data)) if i != axis)] if has_axis else []
    size = dims[axis] if has_axis else product(op, dims)
    width = product(op, [dims[i] for i in order[1:]])
    value = data.cast(INT32) if op.dtype(data) == BOOL else computable(op, data)
    table = reshape(op, transpose(op, value, order) if order else value, [size, width])
    is_same, is_less = _compare_rows(op, table, size, width)
    positions = arange(op, size)
    is_repeated = is_same & (reshape(op, positions, [size, 1]) > positions)
    is_first = _row_counts(op, is_repeated).equals(op.const([0], INT64))
    if not op.args.flag("sorted", default=True):
        is_less = op.emit("ArgMax", is_same.cast(INT32), axis=1, keepdims=1) > positions
    targets = _row_counts(op, is_less & is_first)
    found = op.emit("BooleanMask", positions, is_first)
    count = dim_of(op, found, 0)
    chosen = scatter_rows(op, op.emit("Copy", found), [count], gather(op, targets, 0, found), found)
    counts = gather(op, _row_counts(op, is_same), 0, chosen)
    source = data if order else data.reshape([-1])
    return gather(op, source, axis, chosen), chosen, targets, counts


def _row_counts(op: Op, mask: Value) -> Value:
    """Return how many elements of each row are true, int64."""
    return op.emit("ReduceSum", mask.cast(INT64), axes=[1], keepdims=0)


def _compare_rows(op: Op, table: Value, size: Value, width: Value) -> tuple[Value, Value]:
    """Return which rows [size, size] are equal, and which others are less, by the first element that differs."""
    one, other = reshape(op, table, [size, 1, width]), reshape(op, table, [1, size, width])
    zero = op.const(0, INT32)
    differs = (~one.equals(other)).cast(INT32)
    is_same = op.emit("ReduceSum", differs, axes=[2], keepdims=0).equals(zero)
    is_leading = op.emit("ArgMax", differs, axis=2, keepdims=1).equals(arange(op, width))
    is_below = ((other < one) & is_leading).cast(INT32)
    return is_same, op.emit("ReduceSum", is_below, axes=[2], keepdims=0) > zero


@family.converts("CumSum", "CumProd")
def cumulative(op: Op) -> Value:
    """``CumSum(x, axis; exclusive=0, reverse=0) -> y``, ``CumProd``: sums of shifted slices of the axis.

    Where the axis is computed at run time, the operand becomes three dims, of which it is the second.
    """
    op_type, neutral = ("Add", 0) if op.type == "CumSum" else ("Mul", 1)
    backward, exclusive = op.args.flag("reverse", default=False), op.args.flag("exclusive", default=False)
    data = op.input(0)
    value, rank, known = computable(op, data), op.rank(data), op.known_number(op.input(1))
    if not rank:
        op.unsupported("the operand must have at least one dim", code="invalid-operands")
    if known is not None:
        axis, dims, source = op.axis(int(known), rank), dims_of(op, data), value
    else:
        source = collapse_around_axis(op, value, non_negative_axes(op, op.input(1), rank), rank)
        axis, dims = 1, [dim_of(op, source, i) for i in range(3)]
    size = dims[axis]
    y = reverse(op, source, axis, size) if backward else source
    if exclusive:
        before = full(op, [*dims[:axis], 1, *dims[axis + 1 :]], value.dtype, neutral)
        y = slice_axis(op, concat(op, [before, y], axis), axis, 0, size)
    y = prefix_reduce(op, op_type, y, axis, size)
    y = reverse(op, y, axis, size) if backward else y
    return cast_back(op, y if known is not None else reshape_exactly(op, y, op.emit("Shape", value)), data)

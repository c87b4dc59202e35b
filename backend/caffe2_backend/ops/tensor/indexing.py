"""Reading at indices, and the indices of chosen elements."""

from __future__ import annotations

from caffe2_backend.emit.conversion import computable
from caffe2_backend.emit.indices import flat_indices, non_negative, row_indices
from caffe2_backend.emit.selection import concat, gather, inverse, slice_axis, transpose
from caffe2_backend.emit.shapes import arange, as_vector, dims_of, product, reshape
from caffe2_backend.emit.unsigned import bits_of
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op, index_type
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import BOOL, INT64

family = Family("indexing")


@family.converts("Gather")
def gather_(op: Op) -> Value:
    """``Gather(data, indices; axis=0) -> output``: Gather, with ``wrap_indices`` for those that may be negative."""
    data, indices = op.input(0), op.input(1)
    axis = op.axis(op.args.integer("axis", default=0), op.rank(data))
    if op.known(indices) is None:
        return op.emit("Gather", data, index_type(op, indices), axis=axis, wrap_indices=1)
    return gather(op, data, axis, non_negative(op, indices, data, axis))


@family.converts("ai.onnx.ml::ArrayFeatureExtractor")
def array_features(op: Op) -> Value:
    """``ArrayFeatureExtractor(X, Y) -> Z``: Gather of columns; a list is one row."""
    data = op.input(0)
    rank = op.rank(data)
    table = data if rank > 1 else data.reshape([1, -1])
    return gather(op, table, max(rank, 2) - 1, non_negative(op, op.input(1), data, rank - 1).reshape([-1]))


@family.converts("GatherElements")
def gather_elements(op: Op) -> Value:
    """``GatherElements(data, indices; axis=0) -> output``: Gather of the flattened operand."""
    data = op.input(0)
    axis = op.axis(op.args.integer("axis", default=0), op.rank(data))
    rows = flat_indices(op, data, op.input(1), axis)
    found = gather(op, data.reshape([-1]), 0, rows)
    # Of an operand without elements Caffe2's Gather is one, whatever the shape of the indices.
    return found if op.static_shape(data) is not None else op.emit("ResizeLike", found, op.input(1))


@family.converts("GatherND")
def gather_nd(op: Op) -> Value:
    """``GatherND(data, indices; batch_dims=0) -> output``: Gather of the operand whose first axes are flattened."""
    data = op.input(0)
    rows, axes = row_indices(op, data, op.input(1), op.args.integer("batch_dims", default=0))
    dims = dims_of(op, data)
    return gather(op, reshape(op, data, [product(op, dims[:axes]), *dims[axes:]]), 0, rows)


@family.converts("NonZero")
def non_zero(op: Op) -> Value:
    """``NonZero(X) -> Y``: BooleanMask of the flattened operand, whose indices are split into those of each axis."""
    data = op.input(0)
    dims = dims_of(op, data) or [op.const(1, INT64)]
    flat = data.reshape([-1])
    mask = flat if op.dtype(data) == BOOL else bits_of(op, flat).cast(BOOL)
    found = op.emit("BooleanMask", flat, mask, outputs=2)[1]
    rows = []
    for axis, size in enumerate(dims):
        quotient = found.quotient(as_vector(op, product(op, dims[axis + 1 :])))
        length = as_vector(op, size)
        rows.append(op.emit("ExpandDims", quotient - quotient.quotient(length) * length, dims=[0]))
    return concat(op, rows, 0)


@family.converts("Compress")
def compress(op: Op) -> Value:
    """``Compress(input, condition; axis=None) -> output``: Gather; the condition may be shorter than the axis."""
    data, condition = op.input(0), op.input(1)
    chosen = op.emit("BooleanMask", condition, condition, outputs=2)[1]
    if "axis" not in op.args:
        return gather(op, data.reshape([-1]), 0, chosen)
    return gather(op, data, op.axis(op.args.integer("axis"), op.rank(data)), chosen)


@family.converts("OneHot")
def one_hot(op: Op) -> Value:
    """``OneHot(indices, depth, values; axis=-1) -> output``: off + (index == position) * (on - off).

    An index outside of [-depth, depth) gives off everywhere.
    """
    indices = op.input(0)
    depth = op.emit("Cast", op.input(1).reshape([1]), to=INT64)
    rank = op.rank(indices) + 1
    axis = op.axis(op.args.integer("axis", default=-1), rank)
    dims = dims_of(op, indices)
    values = computable(op, op.input(2))
    flat = op.emit("Cast", indices.reshape([-1, 1]), to=INT64)
    positive = flat + (flat < op.const([0], INT64)).cast(INT64) * depth
    hot = positive.equals(arange(op, depth).reshape([1, -1])).cast(values.dtype)
    off, on = slice_axis(op, values, 0, 0, 1), slice_axis(op, values, 0, 1, 2)
    table = reshape(op, hot * (on - off) + off, [*dims, depth])
    order = list(range(rank - 1))
    order.insert(axis, rank - 1)
    return transpose(op, table, order).cast(op.input(2).dtype)


@family.converts("ReverseSequence")
def reverse_sequence(op: Op) -> Value:
    """``ReverseSequence(input, sequence_lens; batch_axis=1, time_axis=0) -> Y``: Gather of rows [time * batch, ...].

    Row i of a sequence of length n comes from row n - 1 - i if i < n, else from row i.
    """
    data = op.input(0)
    batch, time = op.args.integer("batch_axis", default=1), op.args.integer("time_axis", default=0)
    if not {batch, time} <= {0, 1}:  # which onnxruntime takes for others
        op.unsupported(f"batch_axis and time_axis must be 0 or 1, not {batch} and {time}", code="invalid-argument")
    dims = dims_of(op, data)
    batch, time = op.axis(batch, len(dims), "batch_axis"), op.axis(time, len(dims), "time_axis")
    if batch == time:
        op.unsupported(f"batch_axis and time_axis must differ; both are {batch}", code="invalid-argument")
    steps, count = dims[time], dims[batch]
    lengths = reshape(op, op.input(1), [1, count])
    rows = reshape(op, arange(op, steps), [steps, 1])
    is_inside = (rows < lengths).cast(INT64)
    mirrored = lengths - op.const([1], INT64) - rows
    source = rows + is_inside * (mirrored - rows)
    indices = source * as_vector(op, count) + arange(op, count)
    order = [time, batch, *(i for i in range(len(dims)) if i not in (time, batch))]
    turned = [dims[i] for i in order]
    flat = reshape(op, transpose(op, data, order), [product(op, turned[:2]), *turned[2:]])
    return transpose(op, reshape(op, gather(op, flat, 0, indices.reshape([-1])), turned), inverse(order))

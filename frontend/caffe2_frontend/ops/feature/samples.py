"""Samples: rows of a batch that are trimmed, drawn at random or converted to lists of ids."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import binary, reshape_like
from caffe2_frontend.emit.operand_checks import require_dtype, require_rank
from caffe2_frontend.emit.random import random_uniform
from caffe2_frontend.emit.rows.binary_search import search
from caffe2_frontend.emit.rows.segments import lengths_vector, total
from caffe2_frontend.emit.shapes import cast, indices, reshape, size, size_vector, slice_axis, vector
from caffe2_frontend.interop.types import FLOAT, INT32, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("samples")

_MATRIX = TensorInfo(FLOAT, (None, None))


@family.converts("DenseVectorToIdList", expects={0: _MATRIX})
def dense_vector_to_id_list(op: Op) -> tuple[Value, Value]:
    """DenseVectorToIdList(X) -> lengths, ids (both int32).

    The columns of each row whose elements, rounded half up, are not 0; and how many these are.
    """
    x = op.input(0)
    require_dtype(op, x, [FLOAT], "the operand")
    require_rank(op, x, 2, "the operand")
    nonzero = op.emit("Or", binary(op, "GreaterOrEqual", x, 0.5), binary(op, "LessOrEqual", x, -1.5))
    lengths = op.emit("ReduceSum", cast(op, nonzero, INT32), op.const([1], np.int64), keepdims=0)
    columns = slice_axis(op, op.emit("NonZero", nonzero), 0, 1, 2)
    return lengths, cast(op, op.emit("Reshape", columns, op.const([-1], np.int64), shape=[None]), INT32)


@family.converts("TrimDataset")
def trim_dataset(op: Op) -> tuple[Value, ...]:
    """TrimDataset(field0, field1, ...; fields, multiple_of) -> field0, field1, ...

    Keeps the first records, as many as are a multiple of ``multiple_of``. Fields are columns; the field ``a:lengths``
    holds the number of elements of each record in all fields under ``a``.
    """
    names = op.args.texts("fields")
    multiple = op.args.integer("multiple_of")
    if multiple < 1 or len(names) != len(op.inputs) or len(names) != op.output_count:
        op.unsupported(
            f"multiple_of ({multiple}) must be positive, and fields must name all operands: {len(names)} fields for "
            f"{len(op.inputs)} operands",
            code="invalid-argument",
        )
    owners = [_owner(field, names) for field in range(len(names))]
    for field, owner in enumerate(owners):
        if owner is not None and owner >= field:
            reason = f"field {names[owner]!r} must precede {names[field]!r}, whose lengths it holds"
            op.unsupported(reason, code="invalid-argument")
    records = size_vector(op, op.input(owners.index(None)), 0)
    step = op.const([multiple], np.int64)
    counts: dict[int | None, Value] = {None: op.emit("Mul", op.emit("Div", records, step), step)}
    outputs = []
    for field, (owner, x) in enumerate(zip(owners, op.inputs, strict=True)):
        kept = op.emit("Slice", x, op.const([0], np.int64), counts[owner], op.const([0], np.int64))
        kept.shape = ir.Shape([None, *op.shape(x)[1:]])
        outputs.append(kept)
        if field in owners:
            counts[field] = total(op, lengths_vector(op, kept))
    return tuple(outputs)


def _owner(field: int, names: tuple[str, ...]) -> int | None:
    """Return the field with the lengths of the innermost list that a field belongs to; None for a field of the records.

    ``a:b:lengths`` holds the lengths of all other fields whose names begin with the parts ``a`` and ``b``.
    """
    parts, found = names[field].split(":"), None
    depth = 1  # of a list without a name, whose fields are those of the records
    for other, name in enumerate(names):
        *prefix, last = name.split(":")
        if last == "lengths" and other != field and parts[: len(prefix)] == prefix and len(prefix) >= depth:
            found, depth = other, len(prefix) + 1
    return found


@family.converts("WeightedSample", expects={0: _MATRIX, 1: _MATRIX})
def weighted_sample(op: Op) -> tuple[Value, Value | None]:
    """WeightedSample(weights[, values]) -> indices[, values].

    A column of each row [N, 1] (int32), drawn with the probabilities of the row's weights, and its value. A batch
    without elements yields empty vectors. The draw: a uniform number in the range of the row's cumulative sum is
    located in it by binary search. The sums run over the row only, but lie in one vector, so that one search serves all
    rows.
    """
    weights = op.input(0)
    require_rank(op, weights, 2, "the weights")
    dims = op.static_dim(weights, 0), op.static_dim(weights, 1)
    if 0 in dims:
        empty = op.const(np.zeros(0), np.int32), op.const(np.zeros(0), np.float32)
        return empty[0], empty[1] if op.has_input(1) else None
    if dims[1] is None:
        op.needs_shape("the rank of the result depends on whether there are weights")
    rows = size(op, weights, 0)
    sums = reshape(op, op.emit("CumSum", weights, op.const(1, np.int64)), [-1])
    end = op.emit("Mul", op.emit("Add", indices(op, rows), op.const([1], np.int64)), op.const([dims[1]], np.int64))
    last = op.emit("Sub", end, op.const([1], np.int64))
    drawn = op.emit("Mul", random_uniform(op, vector(op, [rows])), op.emit("Gather", sums, last))
    begin = op.emit("Sub", end, op.const([dims[1]], np.int64))
    index = search(op, sums, drawn, "left", begin, end)
    columns = cast(op, op.emit("Sub", index, begin), INT32)
    values = None
    if op.has_input(1):
        values = reshape(op, op.emit("Gather", reshape(op, op.input(1), [-1]), index), [-1, 1])
    return reshape(op, columns, [-1, 1]), values


@family.converts("WeightedMultiSampling", expects={0: TensorInfo(FLOAT, (None,))})
def weighted_multi_sampling(op: Op) -> Value:
    """WeightedMultiSampling(cumulative[, shape_like]; num_samples=0) -> indices (int32).

    The operand, which Caffe2 calls weights, holds their cumulative sums. The number of samples is ``num_samples``, or
    the shape that of the second operand; without weights it is 0.
    """
    sums = op.input(0)
    require_rank(op, sums, 1, "the weights")
    count = op.args.integer("num_samples", default=0)
    if count < 0:
        op.unsupported(f"num_samples must not be negative: {count}", code="invalid-argument")
    nonempty = op.emit("Min", op.emit("Shape", sums), op.const([1], np.int64))
    requested = op.emit("Reshape", op.emit("Size", op.input(1)), op.const([1], np.int64)) if op.has_input(1) else None
    samples = op.emit("Mul", nonempty, op.const([count], np.int64) if requested is None else requested)
    last = op.emit("Slice", sums, op.const([-1], np.int64), op.const([np.iinfo(np.int64).max], np.int64))
    drawn = cast(op, search(op, sums, op.emit("Mul", random_uniform(op, samples), last), "left"), INT32)
    known = op.static_dim(sums, 0)
    if not op.has_input(1) or op.rank(op.input(1)) == 1 or known == 0:
        return drawn
    if known is not None:
        return reshape_like(op, drawn, op.input(1))
    # Without weights each dim is 0; Caffe2 returns a vector then, whatever the rank.
    dims = op.emit("Mul", op.emit("Shape", op.input(1)), nonempty)
    return op.emit("Reshape", drawn, dims, allowzero=1, shape=[None] * op.rank(op.input(1)))

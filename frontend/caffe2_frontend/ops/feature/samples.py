"""Rows of a batch as samples: trimming, drawing, lists of what is set."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.binary_search import search
from caffe2_frontend.emit.operand_checks import require_dtype, require_rank
from caffe2_frontend.emit.segments import lengths_vector, total
from caffe2_frontend.emit.shapes import Size, cast, indices, reshape, size, size_vector, slice_axis, vector
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("samples")

_FLOAT, _INT32, _INT64 = ir.DataType.FLOAT, ir.DataType.INT32, ir.DataType.INT64
_MATRIX = TensorInfo(_FLOAT, (None, None))


@family.converts("DenseVectorToIdList", expects={0: _MATRIX})
def dense_vector_to_id_list(op: Op) -> tuple[Value, Value]:
    """How many elements of each row are not zero when rounded (halves up), and their columns (both int32)."""
    x = op.input(0)
    require_dtype(op, x, [_FLOAT], "the operand")
    require_rank(op, x, 2, "the operand")
    set_ = op.emit("Or", op.emit("GreaterOrEqual", x, op.const(0.5, x)), op.emit("LessOrEqual", x, op.const(-1.5, x)))
    lengths = op.emit("ReduceSum", cast(op, set_, _INT32), op.const([1], np.int64), keepdims=0)
    columns = slice_axis(op, op.emit("NonZero", set_), 0, 1, 2)
    return lengths, cast(op, op.emit("Reshape", columns, op.const([-1], np.int64), shape=[None]), _INT32)


@family.converts("TrimDataset")
def trim_dataset(op: Op) -> tuple[Value, ...]:
    """The first records of a dataset, as many as are a multiple of ``multiple_of``.

    Fields are columns; ``a:lengths`` says how many elements of the fields ``a:values...`` a record has.
    """
    names = op.args.texts("fields")
    multiple = op.args.integer("multiple_of")
    if multiple < 1 or len(names) != len(op.inputs) or len(names) != op.output_count:
        op.unsupported(f"{len(names)} fields for {len(op.inputs)} operands", code="invalid-argument")
    owners = [_owner(name, names) for name in names]
    roots = [i for i, owner in enumerate(owners) if owner is None]
    if not roots:
        op.unsupported("no field is of the records themselves", code="invalid-argument")
    records = size_vector(op, op.input(roots[0]), 0)
    step = op.const([multiple], np.int64)
    counts: dict[str | None, Value] = {None: op.emit("Mul", op.emit("Div", records, step), step)}
    outputs = []
    for name, owner, x in zip(names, owners, op.inputs, strict=True):
        if owner not in counts:
            op.unsupported(f"field {name!r} depends on {owner!r}, which comes after it", code="invalid-argument")
        kept = op.emit("Slice", x, op.const([0], np.int64), counts[owner], op.const([0], np.int64))
        kept.shape = ir.Shape([None, *op.shape(x)[1:]])
        outputs.append(kept)
        if name.rpartition(":")[2] == "lengths":
            counts[name] = total(op, lengths_vector(op, kept))
    return tuple(outputs)


def _owner(name: str, names: tuple[str, ...]) -> str | None:
    """The field with the lengths of the list that a field is in; None for those of the records themselves."""
    parts = name.split(":")
    for depth in range(len(parts) - 1, 0, -1):
        lengths = ":".join([*parts[:depth], "lengths"])
        if parts[depth] == "values" and lengths in names:
            return lengths
    return None


def _uniform(op: Op, count: Size) -> Value:
    """Random numbers from 0 to 1, [count]."""
    device = op.view.proto.device_option
    seed = float(device.random_seed) if device.HasField("random_seed") else None
    like = op.emit("ConstantOfShape", vector(op, [count]), value=ir.tensor(np.zeros(1, np.float32)))
    return op.emit("RandomUniformLike", like, low=0.0, high=1.0, seed=seed)


@family.converts("WeightedSample", expects={0: _MATRIX, 1: _MATRIX})
def weighted_sample(op: Op) -> tuple[Value, Value | None]:
    """A column of each row, drawn with the row's weights (int32, [N, 1]), and the values there.

    A batch without elements gives vectors without elements.
    """
    weights = op.input(0)
    require_rank(op, weights, 2, "the weights")
    dims = op.static_dim(weights, 0), op.static_dim(weights, 1)
    if 0 in dims:
        nothing = op.const(np.zeros(0), np.int32), op.const(np.zeros(0), np.float32)
        return nothing[0], nothing[1] if op.has_input(1) else None
    if dims[1] is None:
        op.needs_shape("the rank of the result depends on whether there are weights")
    rows = size(op, weights, 0)
    sums = reshape(op, op.emit("CumSum", weights, op.const(1, np.int64)), [-1])
    behind = op.emit("Mul", op.emit("Add", indices(op, rows), op.const([1], np.int64)), op.const([dims[1]], np.int64))
    last = op.emit("Sub", behind, op.const([1], np.int64))
    drawn = op.emit("Mul", _uniform(op, rows), op.emit("Gather", sums, last))
    first = op.emit("Sub", behind, op.const([dims[1]], np.int64))
    place = search(op, sums, drawn, "left", first, behind)
    columns = cast(op, op.emit("Sub", place, first), _INT32)
    values = None
    if op.has_input(1):
        values = reshape(op, op.emit("Gather", reshape(op, op.input(1), [-1]), place), [-1, 1])
    return reshape(op, columns, [-1, 1]), values


@family.converts("WeightedMultiSampling", expects={0: TensorInfo(_FLOAT, (None,))})
def weighted_multi_sampling(op: Op) -> Value:
    """Places (int32) drawn by what Caffe2 calls weights: sums of weights, so that they rise, up to the last one.

    As many as ``num_samples``, or of the second operand's shape; none where there are no weights.
    """
    sums = op.input(0)
    require_rank(op, sums, 1, "the weights")
    count = op.args.integer("num_samples", default=0)
    if count < 0:
        op.unsupported(f"num_samples is negative: {count}", code="invalid-argument")
    some = op.emit("Min", op.emit("Shape", sums), op.const([1], np.int64))
    asked = op.emit("Reshape", op.emit("Size", op.input(1)), op.const([1], np.int64)) if op.has_input(1) else None
    samples = op.emit("Mul", some, op.const([count], np.int64) if asked is None else asked)
    last = op.emit("Slice", sums, op.const([-1], np.int64), op.const([np.iinfo(np.int64).max], np.int64))
    places = cast(op, search(op, sums, op.emit("Mul", _uniform(op, samples), last), "left"), _INT32)
    if not op.has_input(1):
        return places
    like = op.input(1)
    return op.emit("Reshape", places, op.emit("Shape", like), allowzero=1, shape=op.shape(like))

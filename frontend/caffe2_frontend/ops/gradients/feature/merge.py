"""Gradients of merged sparse features: the gradient of the merged values is distributed to the features.

The merged values are blocks, one per example and feature, ordered by example; each feature gets its blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import reshape_like
from caffe2_frontend.emit.operand_checks import require_dtype
from caffe2_frontend.emit.rows.segments import ends, lengths_vector, padded_rows, range_rows, starts, zero_row
from caffe2_frontend.emit.shapes import as_vector, cast, concat_flat, reshape, unsqueeze
from caffe2_frontend.interop.types import BOOL, INT32, INT64, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("feature_gradient")

_VALUES: Final = (BOOL, INT32, INT64, ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.STRING)
# The element types of the operands of a feature. The gradient of the merged values follows them.
_GROUPS: Final = {
    "MergeSingleScalarFeatureTensorsGradient": (BOOL,),
    "MergeSingleListFeatureTensorsGradient": (INT32, BOOL),
    "MergeSingleMapFeatureTensorsGradient": (INT32, BOOL),
    "MergeMultiScalarFeatureTensorsGradient": (INT32,),
    "MergeMultiListFeatureTensorsGradient": (INT32, INT32),
    "MergeMultiMapFeatureTensorsGradient": (INT32, INT32),
}


def _operand(op: OpView, index: int) -> TensorInfo:
    """Describe an operand by its role in its group."""
    roles = _GROUPS[op.type]
    return TensorInfo(roles[index % len(roles)] if index < len(op.inputs) - 1 else None, (None,))


@family.converts("MergeSingleScalarFeatureTensorsGradient", expects=_operand)
def single_scalars(op: Op) -> tuple[Value, ...]:
    """MergeSingleScalarFeatureTensorsGradient(presence0, ..., dvalues) -> dvalues0, ...

    Where a feature is absent, its gradient is 0, false or an empty string.
    """
    (presence,), values = _groups(op)
    present = _stack(op, presence, 1)
    position = starts(op, cast(op, as_vector(op, present), INT64))
    rows = reshape(op, position, [-1, len(presence)])
    gradients = padded_rows(op, values, rows, present, zero_row(op, values))
    columns = (op.emit("Gather", gradients, op.const(i, np.int64), axis=1) for i in range(len(presence)))
    return tuple(reshape_like(op, column, op.input(i)) for i, column in enumerate(columns))


@family.converts("MergeSingleListFeatureTensorsGradient", "MergeSingleMapFeatureTensorsGradient", expects=_operand)
def single_lists(op: Op) -> tuple[Value, ...]:
    """MergeSingleListFeatureTensorsGradient(lengths0, presence0, ..., dvalues) -> dvalues0, ...

    MergeSingleMapFeatureTensorsGradient likewise. Where a feature is absent, its length does not count.
    """
    (lengths, presence), values = _groups(op)
    rows = [
        op.emit("Where", present, lengths_vector(op, length), op.const(0, np.int64))
        for length, present in zip(lengths, presence, strict=True)
    ]
    return _distribute(op, _stack(op, rows, 0), values, len(rows))


@family.converts("MergeMultiScalarFeatureTensorsGradient", expects=_operand)
def multi_scalars(op: Op) -> tuple[Value, ...]:
    """MergeMultiScalarFeatureTensorsGradient(lengths0, ..., dvalues) -> dvalues0, ..."""
    (lengths,), values = _groups(op)
    return _distribute(op, _stack(op, [lengths_vector(op, length) for length in lengths], 0), values, len(lengths))


@family.converts("MergeMultiListFeatureTensorsGradient", "MergeMultiMapFeatureTensorsGradient", expects=_operand)
def multi_lists(op: Op) -> tuple[Value, ...]:
    """MergeMultiListFeatureTensorsGradient(lengths0, value_lengths0, ..., dvalues) -> dvalues0, ...

    MergeMultiMapFeatureTensorsGradient likewise. A block is as long as the value lengths of its example together.
    """
    (lengths, value_lengths), values = _groups(op)
    counts = _stack(op, [lengths_vector(op, length) for length in lengths], 0)
    flat = as_vector(op, counts)
    before = ends(op, lengths_vector(op, concat_flat(op, value_lengths)))
    before = op.emit("Concat", op.const([0], np.int64), before, axis=0)
    start, end = (op.emit("Gather", before, index, axis=0) for index in (starts(op, flat), ends(op, flat)))
    return _distribute(op, reshape_like(op, op.emit("Sub", end, start), counts), values, len(lengths))


def _groups(op: Op) -> tuple[list[list[Value]], Value]:
    """Return the operands by their role in a group, each as a vector; and the gradient of the merged values."""
    *operands, values = op.inputs
    roles = _GROUPS[op.type]
    if not operands or len(operands) % len(roles):
        op.unsupported(
            f"the number of operands before the gradient ({len(operands)}) must be a positive multiple of {len(roles)}",
            code="invalid-argument",
        )
    require_dtype(op, values, _VALUES, "the gradient")
    for i, value in enumerate(operands):
        require_dtype(op, value, (roles[i % len(roles)],), f"input {i}")
    flat = [as_vector(op, value) for value in operands]
    return [flat[role :: len(roles)] for role in range(len(roles))], as_vector(op, values)


def _stack(op: Op, vectors: Sequence[Value], axis: int) -> Value:
    """Stack vectors as the rows (``axis`` 0) or columns (1) of a matrix."""
    return op.emit("Concat", *(unsqueeze(op, value, [axis]) for value in vectors), axis=axis)


def _distribute(op: Op, lengths: Value, values: Value, features: int) -> tuple[Value, ...]:
    """Return the blocks of each feature, concatenated; ``lengths`` [features, examples] are those of the blocks."""
    by_example = op.emit("Transpose", lengths, perm=[1, 0])
    start = reshape_like(op, starts(op, as_vector(op, by_example)), by_example)
    rows = range_rows(op, as_vector(op, op.emit("Transpose", start, perm=[1, 0])), as_vector(op, lengths))
    gradients = op.emit("Gather", values, rows, axis=0)
    if features == 1:
        return (gradients,)
    counts = op.emit("ReduceSum", lengths, op.const([1], np.int64), keepdims=0)
    return op.emit("Split", gradients, counts, axis=0, outputs=features)

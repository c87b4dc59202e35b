"""Merging of sparse features: the features of several operands become one map or list per example.

An example has keys (feature ids) with values; the value of a feature is one element, a list, or a map. Lists and maps
are concatenated, with their lengths in another tensor. The outputs are ordered by example, and within an example by
operand: the concatenation of the operands is permuted by row indices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.operand_checks import INDICES, require_dtype, require_min_rank, require_rank
from caffe2_frontend.emit.rows.segments import count_rows, lengths_vector, range_rows, row_segments, starts, take_rows
from caffe2_frontend.emit.shapes import (
    Size,
    as_vector,
    cast,
    reshape,
    size,
    size_vector,
    sizes,
    slice_axis,
    unsqueeze,
    vector,
)
from caffe2_frontend.interop.types import BOOL, INT32, INT64, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("feature")

# The operands come in groups: the element type of each member, None where the operator takes several.
_GROUPS: Final[Mapping[str, tuple[ir.DataType | None, ...]]] = {
    "MergeSingleScalarFeatureTensors": (None, BOOL),
    "MergeSingleListFeatureTensors": (INT32, None, BOOL),
    "MergeSingleMapFeatureTensors": (INT32, None, None, BOOL),
    "MergeMultiScalarFeatureTensors": (INT32, INT64, None),
    "MergeMultiListFeatureTensors": (INT32, INT64, INT32, None),
    "MergeMultiMapFeatureTensors": (INT32, INT64, INT32, None, None),
    "MergeIdLists": (INT32, None),
}


def _operand(op: OpView, index: int) -> TensorInfo:
    """Describe an operand by its role in its group; ids are int64 unless they are known to be int32."""
    roles = _GROUPS[op.type]
    role = roles[index % len(roles)]
    return TensorInfo(INT64 if role is None and op.type == "MergeIdLists" else role, (None,))


@family.converts(
    "MergeDenseFeatureTensors", expects={0: TensorInfo(None, (None, None)), 1: TensorInfo(BOOL, (None, None))}
)
def merge_dense(op: Op) -> tuple[Value, ...]:
    """MergeDenseFeatureTensors(data, presence; feature_ids) -> lengths, keys, values.

    The features are columns; those that are present are kept.
    """
    x, presence = op.input(0), op.input(1)
    require_min_rank(op, x, 2, "data")
    require_dtype(op, presence, (BOOL,), "presence")
    presence = reshape(op, presence, sizes(op, x, 0, 2))
    return *_present_keys(op, presence), op.emit("Compress", x, as_vector(op, presence))


@family.converts("MergeSingleScalarFeatureTensors", expects=_operand)
def merge_single_scalars(op: Op) -> tuple[Value, ...]:
    """MergeSingleScalarFeatureTensors(values0, presence0, ...; feature_ids) -> lengths, keys, values.

    Each group of operands is one feature.
    """
    values, presence = _groups(op)
    present = _as_columns(op, presence)
    return *_present_keys(op, present), op.emit("Compress", _as_columns(op, values), as_vector(op, present))


@family.converts("MergeSingleListFeatureTensors", "MergeSingleMapFeatureTensors", expects=_operand)
def merge_single_lists(op: Op) -> tuple[Value, ...]:
    """MergeSingleListFeatureTensors(lengths0, values0, presence0, ...; feature_ids) -> lengths, keys, ...

    The other outputs are the lengths of the values, and the values. MergeSingleMapFeatureTensors likewise, with the
    keys of the maps before the values. Each group is one feature; where it is absent, its lengths do not count.
    """
    lengths, *parts, presence = _groups(op)
    present = _as_columns(op, presence)
    length = _as_columns(op, [lengths_vector(op, v) for v in lengths])
    length = op.emit("Where", present, length, op.const(0, np.int64))
    kept = as_vector(op, present)
    start, length = (op.emit("Compress", v, kept) for v in (_starts(op, length, parts[0]), length))
    rows = range_rows(op, start, length)
    merged = (take_rows(op, op.emit("Concat", *part, axis=0), rows) for part in parts)
    return *_present_keys(op, present), cast(op, length, INT32), *merged


@family.converts("MergeMultiScalarFeatureTensors", expects=_operand)
def merge_multi_scalars(op: Op) -> tuple[Value, ...]:
    """MergeMultiScalarFeatureTensors(lengths0, keys0, values0, ...) -> lengths, keys, values.

    Each group has several features per example.
    """
    lengths, keys, values = _groups(op)
    total, rows = _rows_of_examples(op, lengths, keys)
    return total, *(take_rows(op, op.emit("Concat", *part, axis=0), rows) for part in (keys, values))


@family.converts("MergeMultiListFeatureTensors", "MergeMultiMapFeatureTensors", expects=_operand)
def merge_multi_lists(op: Op) -> tuple[Value, ...]:
    """MergeMultiListFeatureTensors(lengths0, keys0, value_lengths0, values0, ...) -> lengths, keys, ...

    The other outputs are the lengths of the values, and the values. MergeMultiMapFeatureTensors likewise, with the keys
    of the maps before the values.
    """
    lengths, keys, value_lengths, *parts = _groups(op)
    total, rows = _rows_of_examples(op, lengths, keys)
    length = lengths_vector(op, op.emit("Concat", *value_lengths, axis=0))
    start, chosen = (take_rows(op, v, rows) for v in (starts(op, length), length))
    values = range_rows(op, start, chosen)
    merged = (take_rows(op, op.emit("Concat", *part, axis=0), values) for part in parts)
    return total, take_rows(op, op.emit("Concat", *keys, axis=0), rows), cast(op, chosen, INT32), *merged


@family.converts("MergeIdLists", expects=_operand)
def merge_id_lists(op: Op) -> tuple[Value, Value]:
    """MergeIdLists(lengths0, ids0, lengths1, ids1, ...) -> lengths, ids.

    The distinct ids of each example in all lists, in ascending order: Unique of the rows (example, id).
    """
    lengths, ids = _groups(op)
    dtype = op.dtype(ids[0])
    require_dtype(op, ids[0], INDICES, "ids")
    examples = [row_segments(op, lengths_vector(op, n), size(op, v, 0)) for n, v in zip(lengths, ids, strict=True)]
    pairs = [
        op.emit("Concat", *(unsqueeze(op, cast(op, part, INT64), [1]) for part in pair), axis=1)
        for pair in zip(examples, ids, strict=True)
    ]
    # Append a pair that sorts last, and remove it after: runtimes do not support Unique of an empty tensor.
    count = size_vector(op, lengths[0], 0)
    sentinel = unsqueeze(op, op.emit("Concat", count, op.const([0], np.int64), axis=0), [0])
    unique = op.emit("Unique", op.emit("Concat", *pairs, sentinel, axis=0), axis=0, sorted=1)
    unique = slice_axis(op, unique, 0, 0, -1)
    example, value = (op.emit("Gather", unique, op.const(i, np.int64), axis=1) for i in (0, 1))
    counts = count_rows(op, example, size(op, lengths[0], 0))
    return cast(op, counts, INT32), cast(op, value, dtype)


def _groups(op: Op) -> list[list[Value]]:
    """Return the operands by their role in a group, each as a vector."""
    operands, roles = op.inputs, _GROUPS[op.type]
    if not operands or len(operands) % len(roles):
        op.unsupported(
            f"the number of operands ({len(operands)}) must be a positive multiple of {len(roles)}",
            code="invalid-argument",
        )
    for i, value in enumerate(operands):
        role = roles[i % len(roles)]
        # Operands of one role are concatenated, and must be of the same type.
        require_dtype(op, value, (op.dtype(operands[i % len(roles)]) if role is None else role,), f"input {i}")
        if op.type == "MergeIdLists":
            require_rank(op, value, 1, f"input {i}")
    flat = [as_vector(op, value) for value in operands]
    return [flat[role :: len(roles)] for role in range(len(roles))]


def _as_columns(op: Op, columns: Sequence[Value]) -> Value:
    """Return vectors as the columns of a matrix."""
    return op.emit("Concat", *(unsqueeze(op, column, [1]) for column in columns), axis=1)


def _present_keys(op: Op, presence: Value) -> tuple[Value, Value]:
    """Return the number of features of each example, and their ids; ``presence`` is [examples, features]."""
    ids = op.args.integers("feature_ids", default=())
    features = op.static_dim(presence, 1)
    if not ids or (features is not None and features > len(ids)):
        op.unsupported(f"feature_ids must name all features ({features}), not {len(ids)}", code="invalid-argument")
    lengths = op.emit("ReduceSum", cast(op, presence, INT32), op.const([1], np.int64), keepdims=0)
    columns = op.emit("Gather", op.emit("NonZero", presence), op.const(1, np.int64), axis=0)
    return lengths, op.emit("Gather", op.const(ids, np.int64), columns)


def _starts(op: Op, lengths: Value, parts: Sequence[Value]) -> Value:
    """Return where the elements of each example and operand begin in the concatenation of the operands.

    ``lengths`` and the result are [examples, operands].
    """
    own = op.emit("CumSum", lengths, op.const(0, np.int64), exclusive=1)
    counts: list[Size] = [size(op, part, 0) for part in parts]
    return op.emit("Add", own, op.emit("CumSum", vector(op, counts), op.const(0, np.int64), exclusive=1))


def _rows_of_examples(op: Op, lengths: Sequence[Value], keys: Sequence[Value]) -> tuple[Value, Value]:
    """Return the number of features of each example, and the rows of their keys in the concatenation."""
    length = _as_columns(op, [lengths_vector(op, v) for v in lengths])
    total = op.emit("ReduceSum", length, op.const([1], np.int64), keepdims=0)
    rows = range_rows(op, as_vector(op, _starts(op, length, keys)), as_vector(op, length))
    return cast(op, total, INT32), rows

"""Features of several operands merged into one map or list for each example.

An example has keys (feature ids) with values; a feature's values are one number, a list, or a map. Lists and maps lie
one after the other, with their lengths beside them. The outputs go through the examples, and in each through the
operands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.operand_checks import INDICES, require_dtype, require_rank, require_rank_from
from caffe2_frontend.emit.segments import count_rows, lengths_vector, range_rows, row_segments, starts, take_rows
from caffe2_frontend.emit.shapes import Size, cast, reshape, size, size_vector, sizes, slice_axis, unsqueeze, vector
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("feature")

_BOOL, _INT32, _INT64 = ir.DataType.BOOL, ir.DataType.INT32, ir.DataType.INT64
# The operands come in groups: what each of a group is, where that is not left to the model.
_GROUPS: Final[Mapping[str, tuple[ir.DataType | None, ...]]] = {
    "MergeSingleScalarFeatureTensors": (None, _BOOL),
    "MergeSingleListFeatureTensors": (_INT32, None, _BOOL),
    "MergeSingleMapFeatureTensors": (_INT32, None, None, _BOOL),
    "MergeMultiScalarFeatureTensors": (_INT32, _INT64, None),
    "MergeMultiListFeatureTensors": (_INT32, _INT64, _INT32, None),
    "MergeMultiMapFeatureTensors": (_INT32, _INT64, _INT32, None, None),
    "MergeIdLists": (_INT32, None),
}


def _operand(op: OpView, index: int) -> TensorInfo:
    roles = _GROUPS[op.type]
    return TensorInfo(roles[index % len(roles)], (None,))


@family.converts(
    "MergeDenseFeatureTensors", expects={0: TensorInfo(None, (None, None)), 1: TensorInfo(_BOOL, (None, None))}
)
def merge_dense(op: Op) -> tuple[Value, ...]:
    """Features are columns; those present are kept."""
    x, presence = op.input(0), op.input(1)
    require_rank_from(op, x, 2, "data")
    require_dtype(op, presence, (_BOOL,), "presence")
    presence = reshape(op, presence, sizes(op, x, 0, 2))
    return *_present_keys(op, presence), op.emit("Compress", x, _flat(op, presence))


@family.converts("MergeSingleScalarFeatureTensors", expects=_operand)
def merge_single_scalars(op: Op) -> tuple[Value, ...]:
    """Each group of operands is one feature: values and presence."""
    values, presence = _groups(op)
    present = _beside(op, presence)
    return *_present_keys(op, present), op.emit("Compress", _beside(op, values), _flat(op, present))


@family.converts("MergeSingleListFeatureTensors", "MergeSingleMapFeatureTensors", expects=_operand)
def merge_single_lists(op: Op) -> tuple[Value, ...]:
    """Each group is one feature: lengths, (keys of maps,) values, presence. What is absent has no values in them."""
    lengths, *parts, presence = _groups(op)
    present = _beside(op, presence)
    length = _beside(op, [lengths_vector(op, v) for v in lengths])
    length = op.emit("Where", present, length, op.const(0, np.int64))
    kept = _flat(op, present)
    start, length = (op.emit("Compress", v, kept) for v in (_starts(op, length, parts[0]), length))
    rows = range_rows(op, start, length)
    merged = (take_rows(op, op.emit("Concat", *part, axis=0), rows) for part in parts)
    return *_present_keys(op, present), cast(op, length, _INT32), *merged


@family.converts("MergeMultiScalarFeatureTensors", expects=_operand)
def merge_multi_scalars(op: Op) -> tuple[Value, ...]:
    """Each group has several features an example: lengths, keys, values."""
    lengths, keys, values = _groups(op)
    total, rows = _rows_of_examples(op, lengths, keys)
    return total, *(take_rows(op, op.emit("Concat", *part, axis=0), rows) for part in (keys, values))


@family.converts("MergeMultiListFeatureTensors", "MergeMultiMapFeatureTensors", expects=_operand)
def merge_multi_lists(op: Op) -> tuple[Value, ...]:
    """Each group has several features an example: lengths, keys, lengths of values, (keys of maps,) values."""
    lengths, keys, value_lengths, *parts = _groups(op)
    total, rows = _rows_of_examples(op, lengths, keys)
    length = lengths_vector(op, op.emit("Concat", *value_lengths, axis=0))
    start, chosen = (take_rows(op, v, rows) for v in (starts(op, length), length))
    values = range_rows(op, start, chosen)
    merged = (take_rows(op, op.emit("Concat", *part, axis=0), values) for part in parts)
    return total, take_rows(op, op.emit("Concat", *keys, axis=0), rows), cast(op, chosen, _INT32), *merged


@family.converts("MergeIdLists", expects=_operand)
def merge_id_lists(op: Op) -> tuple[Value, Value]:
    """The ids of each example in all lists, ascending and each once; the operands are lengths and ids of each list."""
    lengths, ids = _groups(op)
    dtype = op.dtype(ids[0])
    require_dtype(op, ids[0], INDICES, "ids")
    examples = [row_segments(op, lengths_vector(op, n), size(op, v, 0)) for n, v in zip(lengths, ids, strict=True)]
    pairs = [
        op.emit("Concat", *(unsqueeze(op, cast(op, part, _INT64), [1]) for part in pair), axis=1)
        for pair in zip(examples, ids, strict=True)
    ]
    # A pair behind all others, since runtimes find nothing unique among no pairs.
    number = size_vector(op, lengths[0], 0)
    behind = unsqueeze(op, op.emit("Concat", number, op.const([0], np.int64), axis=0), [0])
    unique = op.emit("Unique", op.emit("Concat", *pairs, behind, axis=0), axis=0, sorted=1)
    unique = slice_axis(op, unique, 0, 0, -1)
    example, value = (op.emit("Gather", unique, op.const(i, np.int64), axis=1) for i in (0, 1))
    counts = count_rows(op, example, size(op, lengths[0], 0))
    return cast(op, counts, _INT32), cast(op, value, dtype)


def _groups(op: Op) -> list[list[Value]]:
    """The operands by their role in a group, each as a vector."""
    operands, roles = op.inputs, _GROUPS[op.type]
    if not operands or len(operands) % len(roles):
        op.unsupported(f"{len(operands)} inputs are no groups of {len(roles)}", code="invalid-argument")
    for i, value in enumerate(operands):
        role = roles[i % len(roles)]
        # Elements of one role are put together.
        require_dtype(op, value, (op.dtype(operands[i % len(roles)]) if role is None else role,), f"input {i}")
        if op.type == "MergeIdLists":
            require_rank(op, value, 1, f"input {i}")
    flat = [value if op.rank(value) == 1 else _flat(op, value) for value in operands]
    return [flat[role :: len(roles)] for role in range(len(roles))]


def _beside(op: Op, columns: Sequence[Value]) -> Value:
    """Vectors as the columns of a matrix."""
    return op.emit("Concat", *(unsqueeze(op, column, [1]) for column in columns), axis=1)


def _flat(op: Op, x: Value) -> Value:
    return op.emit("Reshape", x, op.const([-1], np.int64))


def _present_keys(op: Op, presence: Value) -> tuple[Value, Value]:
    """How many features each example has, and their ids; ``presence`` is [examples, features]."""
    ids = op.args.integers("feature_ids", default=())
    features = op.static_dim(presence, 1)
    if not ids or (features is not None and features > len(ids)):
        op.unsupported(f"{len(ids)} feature_ids for {features} features", code="invalid-argument")
    lengths = op.emit("ReduceSum", cast(op, presence, _INT32), op.const([1], np.int64), keepdims=0)
    columns = op.emit("Gather", op.emit("NonZero", presence), op.const(1, np.int64), axis=0)
    return lengths, op.emit("Gather", op.const(ids, np.int64), columns)


def _starts(op: Op, lengths: Value, parts: Sequence[Value]) -> Value:
    """Where the elements of each example and operand begin in the operands' concatenation, [examples, operands]."""
    own = op.emit("CumSum", lengths, op.const(0, np.int64), exclusive=1)
    counts: list[Size] = [size(op, part, 0) for part in parts]
    return op.emit("Add", own, op.emit("CumSum", vector(op, counts), op.const(0, np.int64), exclusive=1))


def _rows_of_examples(op: Op, lengths: Sequence[Value], keys: Sequence[Value]) -> tuple[Value, Value]:
    """How many features each example has, and the rows of their keys in the operands' concatenation."""
    length = _beside(op, [lengths_vector(op, v) for v in lengths])
    total = op.emit("ReduceSum", length, op.const([1], np.int64), keepdims=0)
    rows = range_rows(op, _flat(op, _starts(op, length, keys)), _flat(op, length))
    return cast(op, total, _INT32), rows

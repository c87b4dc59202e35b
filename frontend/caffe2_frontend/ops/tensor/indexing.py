"""Selection of elements by index, key, membership or mask."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import TensorProto
from caffe2_frontend.emit.constant_evaluation import known_values
from caffe2_frontend.emit.operand_checks import INDICES, require_dtype, require_min_rank, require_rank
from caffe2_frontend.emit.rows.segments import ends, filled, starts, take_rows
from caffe2_frontend.emit.selection import true_indices
from caffe2_frontend.emit.shapes import cast, indices, product, reshape, size, sizes, unsqueeze
from caffe2_frontend.interop.types import FLOAT, INT64, UINT8, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("indexing")

_INDICES = TensorInfo(ir.DataType.INT32)
_KEYS = TensorInfo(ir.DataType.INT32, (None,))
_MASK = TensorInfo(ir.DataType.BOOL, (None,))


@family.converts("Gather", "BatchGather", expects={1: _INDICES})
def gather(op: Op) -> Value:
    """Gather(data, indices; axis=0, match_outer=0, wrap_indices) -> Y.

    BatchGather(data, indices; match_outer=0) -> Y gathers along axis 1. With ``match_outer`` the indices have the
    data's dims before ``axis``, and each of these slices has indices of its own. Negative indices count from the end,
    with or without ``wrap_indices``: without it Caffe2 reports them as errors.
    """
    x, index = op.input(0), op.input(1)
    require_dtype(op, index, INDICES, "indices")
    op.args.ignore("wrap_indices")
    axis = op.axis(1 if op.type == "BatchGather" else op.args.integer("axis", default=0), op.rank(x))
    if op.static_dim(x, axis) == 0:
        return op.emit("Identity", x)  # Caffe2 returns a table without rows, whatever the indices
    if not op.args.flag("match_outer", default=False):
        if axis == 0:
            return take_rows(op, x, cast(op, index, INT64))
        return op.emit("Gather", x, index, axis=axis)
    if axis == 0 or op.rank(index) < axis:
        op.unsupported(
            f"match_outer requires axis ({axis}) to be positive, and indices of at least that rank ({op.rank(index)})",
            code="invalid-argument",
        )
    index = unsqueeze(op, cast(op, index, INT64), [op.rank(index)])
    return op.emit("GatherND", x, index, batch_dims=axis)


@family.converts("BooleanMask", expects={1: _MASK})
def boolean_mask(op: Op) -> tuple[Value, Value | None]:
    """BooleanMask(data, mask) -> rows[, indices]: the rows where the mask is true, and their indices (int64)."""
    x, mask = op.input(0), op.input(1)
    require_rank(op, mask, 1, "the mask")
    require_min_rank(op, x, 1, "the data")
    known = known_values(op, mask)
    count = None if known is None else int(known.sum())
    rows = op.emit("Compress", x, mask, axis=0, shape=[count, *op.shape(x)[1:]])
    return rows, true_indices(op, mask) if op.wants(1) else None


@family.converts("BooleanMaskLengths", expects={0: _KEYS, 1: _MASK})
def boolean_mask_lengths(op: Op) -> Value:
    """BooleanMaskLengths(lengths, mask) -> lengths: the number of elements of each segment that the mask keeps."""
    lengths, mask = op.input(0), op.input(1)
    require_rank(op, lengths, 1, "the lengths")
    require_rank(op, mask, 1, "the mask")
    kept = op.emit("Concat", op.const([0], np.int64), cast(op, mask, INT64), axis=0)
    # The number of true elements before each position; a segment's share is a difference of two of them.
    until = op.emit("CumSum", kept, op.const(0, np.int64))
    wide = cast(op, lengths, INT64)
    before, after = (op.emit("Gather", until, bounds(op, wide)) for bounds in (starts, ends))
    return cast(op, op.emit("Sub", after, before), op.dtype(lengths))


def _unmask_operand(_: OpView, index: int) -> TensorInfo:
    """Describe operands: masks and vectors of values in turn."""
    return TensorInfo(shape=(None,)) if index % 2 else _MASK


@family.converts("BooleanUnmask", expects=_unmask_operand)
def boolean_unmask(op: Op) -> Value:
    """BooleanUnmask(mask0, values0, mask1, values1, ...) -> Y.

    The inverse of BooleanMask: values are placed where their mask is true. Where several masks are, the first counts.
    """
    masks, values = op.inputs[::2], op.inputs[1::2]
    if not masks or len(masks) != len(values):
        op.unsupported(
            f"the operands must be pairs of mask and values, not {len(op.inputs)} tensors", code="invalid-operands"
        )
    taken: Value | None = None
    positions = []
    for mask in masks:
        own = mask if taken is None else op.emit("And", mask, op.emit("Not", taken))
        taken = mask if taken is None else op.emit("Or", taken, mask)
        positions.append(true_indices(op, own))
    if len(masks) == 1:
        return values[0]
    # ``order`` holds the target position of each value.
    order = op.emit("Concat", *positions, axis=0)
    return take_rows(op, op.emit("Concat", *values, axis=0), _inverse(op, order))


def _inverse(op: Op, permutation: Value) -> Value:
    """Return the inverse of a permutation, both int64 [N]."""
    return op.emit("ScatterElements", permutation, permutation, indices(op, size(op, permutation, 0)), axis=0)


@family.converts("Unique", expects={0: _KEYS})
def unique(op: Op) -> tuple[Value, Value | None]:
    """Unique(X) -> unique[, remapping].

    The distinct values in ascending order, and the index of each element's value among them (int32).
    """
    x = op.input(0)
    require_dtype(op, x, INDICES, "the operand")
    require_rank(op, x, 1, "the operand")
    values, _, inverse, _ = op.emit("Unique", cast(op, x, INT64), sorted=1, axis=0, outputs=4)
    return cast(op, values, op.dtype(x)), cast(op, inverse, ir.DataType.INT32) if op.wants(1) else None


@family.converts("FindDuplicateElements", expects={0: TensorInfo(shape=(None,))})
def find_duplicate_elements(op: Op) -> Value:
    """FindDuplicateElements(X) -> indices: the int64 indices of elements that occurred before."""
    x = op.input(0)
    require_rank(op, x, 1, "the data")
    if op.dtype(x) == ir.DataType.INT32:
        x = cast(op, x, INT64)
    _, first, _, _ = op.emit("Unique", x, sorted=0, outputs=4)
    # Every element is a duplicate, except the first occurrences.
    duplicate = op.emit("Expand", op.const([True]), op.emit("Shape", x))
    false = op.emit("Expand", op.const([False]), op.emit("Shape", first))
    return true_indices(op, op.emit("ScatterElements", duplicate, first, false, axis=0))


@family.converts("Find", expects={0: _INDICES, 1: _INDICES})
def find(op: Op) -> Value:
    """Find(X, query; missing_value=-1) -> indices.

    The index of the last occurrence in X of each element of the query; ``missing_value`` if it does not occur.
    """
    pool, wanted = op.input(0), op.input(1)
    missing = op.args.integer("missing_value", default=-1)
    dtype = op.dtype(pool)
    require_dtype(op, pool, INDICES, "the pool")
    # Number the distinct values of both operands together; scatter the last index of each number in the pool into a
    # table, and look the wanted numbers up there.
    flat = [reshape(op, cast(op, v, INT64), [-1]) for v in (pool, wanted)]
    _, _, groups, counts = op.emit("Unique", op.emit("Concat", *flat, axis=0), sorted=1, outputs=4)
    split = op.emit("Shape", flat[0])
    pooled, queried = op.emit("Split", groups, op.emit("Concat", split, op.emit("Shape", flat[1]), axis=0), outputs=2)
    unseen = filled(op, groups, [op.emit("Shape", counts)], -1)
    last = op.emit("ScatterElements", unseen, pooled, indices(op, size(op, pooled, 0)), axis=0, reduction="max")
    found = op.emit("Gather", last, queried)
    if missing != -1:
        found = op.emit("Where", op.emit("Less", found, op.const(0, np.int64)), op.const(missing, np.int64), found)
    return reshape(op, cast(op, found, dtype), sizes(op, wanted))


@family.converts("IsMemberOf")
def is_member_of(op: Op) -> Value:
    """IsMemberOf(X; value, dtype) -> Y: which elements are among ``value``.

    All are false if ``dtype`` is given and is not the type of X.
    """
    x = op.input(0)
    dtype = op.dtype(x)
    if dtype not in _DECLARED:
        op.unsupported(f"X must be INT32, INT64, BOOL or STRING, not {dtype.name}", code="invalid-operands")
    declared = op.args.integer("dtype", default=TensorProto.UNDEFINED)
    if dtype == ir.DataType.STRING:
        values: list[str] | list[int] = list(op.args.texts("value", default=()))
    else:
        values = list(op.args.integers("value", default=()))
    if not values or declared not in (TensorProto.UNDEFINED, _DECLARED[dtype]):
        return op.emit("Expand", op.const(False), op.emit("Shape", x))  # noqa: FBT003 - the element
    if len(values) == 1:
        return op.emit("Equal", x, op.const(values[0], x))
    table = op.const(sorted(set(values)), object if dtype == ir.DataType.STRING else x)
    same = op.emit("Equal", unsqueeze(op, x, [op.rank(x)]), table)
    last = op.const([op.rank(x)], np.int64)
    any_equal = op.emit("ReduceMax", op.emit("Cast", same, to=int(ir.DataType.UINT8)), last, keepdims=0)
    return cast(op, any_equal, ir.DataType.BOOL)


_DECLARED = {
    ir.DataType.INT32: TensorProto.INT32,
    INT64: TensorProto.INT64,
    ir.DataType.BOOL: TensorProto.BOOL,
    ir.DataType.STRING: TensorProto.STRING,
}


def _shards(op: Op, keys: Value, count: int) -> Value:
    """Return the partition of each key: the key modulo ``count``, never negative."""
    require_dtype(op, keys, INDICES, "the keys")
    return op.emit("Mod", keys, op.const(count, keys))


@family.converts("Partition", expects={0: _KEYS})
def partition(op: Op) -> tuple[Value, ...]:
    """Partition(keys, X1, X2, ...; pack_first_input=0) -> keys0, X1_0, ..., keys1, X1_1, ...

    Partition p of n holds the keys that are p modulo n, and the rows of the other operands at the same positions. With
    ``pack_first_input`` a key k is stored as ``(k - p) / n``.
    """
    count = op.output_count // len(op.inputs)
    if count < 1 or op.output_count % len(op.inputs):
        op.unsupported(
            f"the number of outputs ({op.output_count}) must be a multiple of the number of inputs ({len(op.inputs)})",
            code="invalid-argument",
        )
    keys = op.input(0)
    require_min_rank(op, keys, 1, "the keys")
    shards = _shards(op, keys, count)
    rank = op.rank(keys)
    rows = [keys, *op.inputs[1:]]
    if op.args.integer("pack_first_input", default=0):
        rows[0] = op.emit("Div", op.emit("Sub", keys, shards), op.const(count, keys))
    if rank > 1:
        shards = reshape(op, shards, [-1])
        rows = [reshape(op, x, [product(op, sizes(op, x, 0, rank)), *sizes(op, x, rank)]) for x in rows]
    outputs = []
    for index in range(count):
        selected = op.emit("Equal", shards, op.const(index, shards))
        outputs += [op.emit("Compress", x, selected, axis=0, shape=[None, *op.shape(x)[1:]]) for x in rows]
    return tuple(outputs)


@family.converts("GatherByKey", expects={0: _KEYS})
def gather_by_key(op: Op) -> Value:
    """GatherByKey(keys, X0, X1, ...) -> Y: the inverse of Partition, rows in the order of the original keys."""
    keys, parts = op.input(0), op.inputs[1:]
    require_rank(op, keys, 1, "the keys")
    shards = _shards(op, keys, len(parts))
    rows = parts[0] if len(parts) == 1 else op.emit("Concat", *parts, axis=0)
    # Sort the positions by partition: TopK keeps the order of equal elements, as Partition does.
    _, order = op.emit("TopK", shards, op.emit("Shape", shards), axis=0, largest=0, sorted=1, outputs=2)
    return take_rows(op, rows, _inverse(op, order))


@family.converts("KeySplit", expects={0: TensorInfo(INT64)})
def key_split(op: Op) -> tuple[Value, ...]:
    """KeySplit(keys; categorical_limit) -> indices0, indices1, ...

    For each key below ``categorical_limit`` the positions at which it occurs (int32).
    """
    keys = op.input(0)
    require_dtype(op, keys, [INT64], "the keys")
    limit = op.args.integer("categorical_limit", default=0)
    if limit < 1 or limit != op.output_count:
        op.unsupported(
            f"categorical_limit ({limit}) must be the number of outputs ({op.output_count})", code="invalid-argument"
        )
    flat = reshape(op, keys, [-1])
    return tuple(
        cast(op, true_indices(op, op.emit("Equal", flat, op.const(key, np.int64))), ir.DataType.INT32)
        for key in range(limit)
    )


@family.converts("QuantDecode", expects=lambda _, index: TensorInfo(UINT8 if index else FLOAT))
def quant_decode(op: Op) -> tuple[Value, ...]:
    """QuantDecode(codebook, codes0, codes1, ...) -> Y0, Y1, ...

    The codes (uint8, uint16 or int32) are indices into the codebook.
    """
    codes = op.inputs[1:]
    if not codes or len(codes) != op.output_count:
        op.unsupported(
            f"the number of code tensors ({len(codes)}) must be the number of outputs ({op.output_count})",
            code="invalid-operands",
        )
    book = reshape(op, op.input(0), [-1])
    return tuple(op.emit("Gather", book, cast(op, code, ir.DataType.INT32)) for code in codes)

"""Encodings of categories: one-hot rows, buckets, hashes and n-grams."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.operand_checks import INDICES, require_dtype, require_equal, require_min_rank, require_rank
from caffe2_frontend.emit.rows.binary_search import SIDES, search
from caffe2_frontend.emit.rows.segments import ends, filled, lengths_vector, row_positions, row_segments, starts
from caffe2_frontend.emit.shapes import cast, flatten, indices, product, reshape, size, squeeze, unsqueeze
from caffe2_frontend.interop.types import FLOAT, INT64, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("encoding")

_LENGTHS = TensorInfo(ir.DataType.INT32, (None,))
_ID_LIST = TensorInfo(INT64, (None,))


@family.converts("OneHot", expects={0: _ID_LIST, 1: TensorInfo(INT64, (1,))})
def one_hot(op: Op) -> Value:
    """OneHot(indices, index_size) -> one_hots: rows of ``index_size`` elements (float)."""
    index = op.input(0)
    require_rank(op, index, 1, "indices")
    width = reshape(op, op.input(1), [1])
    return _as_float(op, op.emit("Equal", unsqueeze(op, index, [1]), indices(op, width)))


def _as_float(op: Op, x: Value) -> Value:
    """Cast to float."""
    return cast(op, x, FLOAT)


@family.converts("SegmentOneHot", expects={0: _LENGTHS, 1: _ID_LIST, 2: TensorInfo(INT64, (1,))})
def segment_one_hot(op: Op) -> Value:
    """SegmentOneHot(lengths, indices, index_size) -> one_hots.

    A row per segment, with a one at each of its indices (float).
    """
    lengths, index = lengths_vector(op, op.input(0)), op.input(1)
    width = reshape(op, op.input(2), [1])
    segments = row_segments(op, lengths, size(op, index, 0))
    flat = op.emit("Add", op.emit("Mul", segments, width), index)
    count = size(op, lengths, 0)
    ones = _as_float(op, op.emit("Expand", op.const([1.0], np.float32), op.emit("Shape", index)))
    zeros = filled(op, ones, [product(op, [count, width])])
    return reshape(op, op.emit("ScatterElements", zeros, flat, ones, axis=0), [count, width])


@family.converts(
    "BatchOneHot", expects={0: TensorInfo(INT64, (None, None)), 1: _LENGTHS, 2: TensorInfo(INT64, (None,))}
)
def batch_one_hot(op: Op) -> Value:
    """BatchOneHot(data, lengths, values) -> output.

    Each column is compared with ``length`` values of its own; the ones have the type of the data.
    """
    x, values = op.input(0), op.input(2)
    require_dtype(op, x, INDICES, "the operand")
    require_rank(op, x, 2, "the operand")
    columns = row_segments(op, lengths_vector(op, op.input(1)), size(op, values, 0))
    return cast(op, op.emit("Equal", op.emit("Gather", x, columns, axis=1), values), op.dtype(x))


@family.converts("Bucketize", expects={0: TensorInfo(FLOAT)})
def bucketize(op: Op) -> Value:
    """Bucketize(data; boundaries) -> indices: the number of boundaries below each element (int32)."""
    boundaries = op.args.numbers("boundaries")
    if any(a > b for a, b in pairwise(boundaries)):
        op.unsupported("boundaries must be sorted in ascending order", code="invalid-argument")
    x = op.input(0)
    require_min_rank(op, x, 1, "the operand")
    return cast(op, search(op, op.const(boundaries, x), x, "left"), ir.DataType.INT32)


@family.converts(
    "BatchBucketize",
    expects={0: TensorInfo(FLOAT, (None, None)), 1: _LENGTHS, 2: TensorInfo(FLOAT, (None,)), 3: _LENGTHS},
)
def batch_bucketize(op: Op) -> Value:
    """BatchBucketize(feature, indices, boundaries, lengths) -> bucketized.

    Bucketize for the columns that the indices name, each with ``length`` sorted boundaries of its own (int32).
    """
    x = op.emit("Gather", op.input(0), op.input(1), axis=1)
    lengths = lengths_vector(op, op.input(3))
    begin = starts(op, lengths)
    index = search(op, op.input(2), x, "left", begin, ends(op, lengths))
    return cast(op, op.emit("Sub", index, begin), ir.DataType.INT32)


@family.converts(
    "BatchBucketOneHot", expects={0: TensorInfo(FLOAT, (None, None)), 1: _LENGTHS, 2: TensorInfo(FLOAT, (None,))}
)
def batch_bucket_one_hot(op: Op) -> Value:
    """BatchBucketOneHot(data, lengths, boundaries) -> output.

    The one-hot buckets of all columns, concatenated; a column has one bucket more than boundaries (float). An element
    that equals several boundaries belongs to the middle one of the buckets that these delimit.
    """
    x = op.input(0)
    require_rank(op, x, 2, "the operand")
    lengths = lengths_vector(op, op.input(1))
    begin, end = starts(op, lengths), ends(op, lengths)
    # The bucket is the mean of the numbers of boundaries below the element, and not above it.
    lower, upper = (search(op, op.input(2), x, side, begin, end) for side in SIDES)
    twice = op.emit("Sub", op.emit("Add", lower, upper), op.emit("Mul", begin, op.const([2], np.int64)))
    buckets = op.emit("Div", twice, op.const([2], np.int64))
    widths = op.emit("Add", lengths, op.const([1], np.int64))
    columns = row_segments(op, widths)
    own = op.emit("Gather", buckets, columns, axis=1)
    return _as_float(op, op.emit("Equal", own, row_positions(op, widths, columns)))


@family.converts("IndexHash", expects={0: TensorInfo(INT64)})
def index_hash(op: Op) -> Value:
    """IndexHash(indices; seed=0, modulo) -> hashes.

    Caffe2 starts with ``seed * 0xDEADBEEF`` and for each byte, lowest first, as a signed char, computes
    ``hash = hash * 65537 + byte`` in integers that wrap around; the result is the non-negative remainder by ``modulo``.
    As a polynomial that is a product of the bytes with powers of 65537, which are constants modulo 2**64.
    """
    x = op.input(0)
    dtype = op.dtype(x)
    require_dtype(op, x, INDICES, "indices")
    seed, modulo = op.args.integer("seed", default=0), op.args.integer("modulo", default=0)
    count = 8 if dtype == INT64 else 4
    if not 0 < modulo < 2 ** (8 * count - 1):
        op.unsupported(f"modulo must be positive and fit {dtype.name}: {modulo}", code="invalid-argument")
    unsigned = ir.DataType.UINT64
    # Extract the bytes as [..., count].
    wide = cast(op, cast(op, unsqueeze(op, x, [op.rank(x)]), INT64), unsigned)
    shifted = op.emit("BitShift", wide, op.const(np.arange(count) * 8, np.uint64), direction="RIGHT")
    low = cast(op, op.emit("BitwiseAnd", shifted, op.const(0xFF, np.uint64)), INT64)
    # As a signed char, a byte above 127 is negative.
    signed = op.emit(
        "Sub",
        low,
        op.emit("Mul", cast(op, op.emit("Greater", low, op.const(127, np.int64)), INT64), op.const(256, np.int64)),
    )
    powers = [_as_int64(65537 ** (count - 1 - i)) for i in range(count)]
    # MatMul and not ReduceSum: onnxruntime's ReduceSum of integers is computed in float64.
    hashed = squeeze(op, op.emit("MatMul", signed, op.const([[p] for p in powers], np.int64)), [op.rank(x)])
    hashed = op.emit("Add", hashed, op.const(_as_int64(seed * 0xDEADBEEF * 65537**count), np.int64))
    return op.emit("Mod", cast(op, hashed, dtype), op.const(modulo, dtype))


def _as_int64(value: int) -> int:
    """Wrap an integer around to the range of int64."""
    return (value + 2**63) % 2**64 - 2**63


@family.converts("NGramFromCategorical", expects={0: TensorInfo(FLOAT, (None, None))})
def ngram_from_categorical(op: Op) -> Value:
    """NGramFromCategorical(data; col_ids, categorical_limits, vals) -> ngram_ids (int64).

    The rounded columns are the digits of a mixed-radix number: the index of each among its column's values, or 0.
    """
    x = op.input(0)
    columns, limits, values = (op.args.integers(name) for name in ("col_ids", "categorical_limits", "vals"))
    if not columns or len(columns) != len(limits) or min(limits) < 1 or sum(limits) != len(values) or min(columns) < 0:
        op.unsupported(
            "col_ids must not be negative; categorical_limits must be positive, one per column, and sum to len(vals)",
            code="invalid-argument",
        )
    require_min_rank(op, x, 1, "the operand")
    x = flatten(op, x, 1)
    width = op.static_dim(x, 1)
    if width is not None:
        require_equal(op, max(width, max(columns) + 1), width, "columns named in col_ids and columns")
    # The value of a digit by its column and the value it stands for: index times the product of the limits before.
    weights: dict[tuple[int, int], int] = {}
    base, start = 1, 0
    for column, limit in enumerate(limits):
        weights |= {(column, values[start + m]): m * base for m in range(limit)}
        base, start = base * limit, start + limit
    chosen = op.emit("Gather", x, op.const([columns[column] for column, _ in weights], np.int64), axis=1)
    same = op.emit("Equal", _rounded(op, chosen), op.const([value for _, value in weights], np.int64))
    digits = op.emit("Where", same, op.const(list(weights.values()), np.int64), op.const(0, np.int64))
    return op.emit("ReduceSum", digits, op.const([1], np.int64), keepdims=0)


def _rounded(op: Op, x: Value) -> Value:
    """Round to the nearest int64, halves away from zero as std::round does; ONNX rounds them to even."""
    magnitude = op.emit("Abs", x)
    floor = op.emit("Floor", magnitude)
    half = op.emit("GreaterOrEqual", op.emit("Sub", magnitude, floor), op.const(0.5, x))
    up = op.emit("Add", floor, cast(op, half, op.dtype(x)))
    return cast(op, op.emit("Mul", op.emit("Sign", x), up), INT64)

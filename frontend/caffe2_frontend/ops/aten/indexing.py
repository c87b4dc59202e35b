"""ATen operators that read and write by index, sort, and make masks."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, binary
from caffe2_frontend.emit.operand_checks import INDICES, require_dtype
from caffe2_frontend.emit.shapes import cast, reshape, size, size_vector, sizes, unsqueeze, vector
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Outputs, Value
from caffe2_frontend.ops.aten.operands import as_index, as_mask, constant, name_of

family = Family("aten indexing")

_SECOND_IS_INDEX = {1: TensorInfo(ir.DataType.INT64)}
_MASKS = (ir.DataType.BOOL, ir.DataType.UINT8)


@family.converts("embedding", expects=_SECOND_IS_INDEX)
def convert_embedding(op: Op) -> Value:
    """aten::embedding(weight, indices; padding_idx, scale_grad_by_freq, sparse): the arguments are for training."""
    op.args.ignore("padding_idx", "scale_grad_by_freq", "sparse")
    return op.emit("Gather", op.input(0), as_index(op, op.input(1)), axis=0)


@family.converts("index_select", expects=_SECOND_IS_INDEX)
def convert_index_select(op: Op) -> Value:
    """aten::index_select(self, index; dim)."""
    x = op.input(0)
    index = as_index(op, op.input(1))
    if op.rank(index) == 0:
        index = unsqueeze(op, index, [0])
    return op.emit("Gather", x, index, axis=op.axis(op.args.integer("dim"), op.rank(x), "dim"))


@family.converts("gather", expects=_SECOND_IS_INDEX)
def convert_gather(op: Op) -> Value:
    """aten::gather(self, index; dim, sparse_grad=0)."""
    op.args.ignore("sparse_grad")
    x = op.input(0)
    return op.emit("GatherElements", x, op.input(1), axis=op.axis(op.args.integer("dim"), op.rank(x), "dim"))


@family.converts("take", expects=_SECOND_IS_INDEX)
def convert_take(op: Op) -> Value:
    """aten::take(self, index): of all elements as one vector."""
    return op.emit("Gather", reshape(op, op.input(0), [-1]), op.input(1), axis=0)


@family.converts("index", expects=_SECOND_IS_INDEX)
def convert_index(op: Op) -> Value:
    """aten::index(self, indices...): the first dims, by index tensors that broadcast, or by a mask."""
    x, given = op.input(0), [op.input(i) for i in range(1, len(op.view.inputs))]
    if not given:
        op.unsupported("an index tensor must be given", code="invalid-operands")
    parts: list[Value] = []
    for value in given:
        if op.dtype(value) not in _MASKS:
            parts.append(as_index(op, value))
            continue
        found = op.emit("NonZero", cast(op, value, ir.DataType.BOOL))
        parts += [op.emit("Gather", found, op.const(i, np.int64), axis=0) for i in range(op.rank(value))]
    if not parts:  # a mask without dims indexes none
        op.unsupported("an index tensor must be given, or a mask with dims", code="invalid-operands")
    if len(parts) == 1:
        return op.emit("Gather", x, parts[0], axis=0)
    rank = max(op.rank(part) for part in parts)
    total = parts[0]
    for part in parts[1:]:
        total = add(op, total, part)
    shape = op.emit("Shape", total)
    points = op.emit("Concat", *(unsqueeze(op, op.emit("Expand", p, shape), [rank]) for p in parts), axis=rank)
    return op.emit("GatherND", x, points)


@family.converts("masked_select")
def convert_masked_select(op: Op) -> Value:
    """aten::masked_select(self, mask): where the mask, which broadcasts with ``self``, is true."""
    x, mask = op.input(0), as_mask(op, op.input(1))
    mask = op.emit("Expand", mask, op.emit("Shape", x))
    x = op.emit("Expand", x, op.emit("Shape", mask))
    return op.emit("Compress", x, reshape(op, mask, [-1]), shape=[None])


@family.converts("nonzero")
def convert_nonzero(op: Op) -> Value:
    """aten::nonzero(self): a row of indices for each element that is not zero."""
    return op.emit("Transpose", op.emit("NonZero", cast(op, op.input(0), ir.DataType.BOOL)), perm=[1, 0])


@family.converts("scatter", "scatter_add", expects=_SECOND_IS_INDEX)
def convert_scatter(op: Op) -> Value:
    """aten::scatter(self, index[, src]; dim, value) | scatter_add(self, index, src; dim)."""
    x, at = op.input(0), op.input(1)
    axis = op.axis(op.args.integer("dim"), op.rank(x), "dim")
    if op.has_input(2):
        source = _first_elements(op, op.input(2), at)
    else:
        source = op.emit("Expand", constant(op, "value", x), op.emit("Shape", at), shape=op.shape(at))
    reduction = "add" if name_of(op) == "scatter_add" else None
    return op.emit("ScatterElements", x, at, source, axis=axis, reduction=reduction)


def _first_elements(op: Op, source: Value, index: Value) -> Value:
    """Return the part of ``source`` that has the shape of ``index``."""
    if (
        source.shape is not None
        and index.shape is not None
        and source.shape.is_static()
        and source.shape == index.shape
    ):
        return source
    rank = op.rank(index)
    axes, zeros = op.const(np.arange(rank), np.int64), op.const(np.zeros(rank), np.int64)
    return op.emit("Slice", source, zeros, vector(op, sizes(op, index)), axes, shape=op.shape(index))


@family.converts("index_fill")
def convert_index_fill(op: Op) -> Value:
    """aten::index_fill(self, index[, value]; dim, value): ``value`` at these indices along a dim."""
    x, at = op.input(0), as_index(op, op.input(1))
    axis = op.axis(op.args.integer("dim"), op.rank(x), "dim")
    value = cast(op, op.input(2), op.dtype(x)) if op.has_input(2) else constant(op, "value", x)
    at = reshape(op, at, [*[1] * axis, -1, *[1] * (op.rank(x) - 1 - axis)])
    dims = [size(op, at, i) if i == axis else size(op, x, i) for i in range(op.rank(x))]
    at = op.emit("Expand", at, vector(op, dims))
    return op.emit("ScatterElements", x, at, op.emit("Expand", value, op.emit("Shape", at)), axis=axis)


@family.converts("topk")
def convert_topk(op: Op) -> tuple[Value, ...]:
    """aten::topk(self; k, dim=-1, largest=1, sorted=1) -> values, indices."""
    x = op.input(0)
    axis = op.axis(op.args.integer("dim", default=-1), op.rank(x), "dim")
    op.args.ignore("sorted")
    k = op.const([op.args.integer("k")], np.int64)
    largest = op.args.flag("largest", default=True)
    return op.emit("TopK", x, k, outputs=2, axis=axis, largest=int(largest), sorted=1)


@family.converts("sort", "argsort", "msort")
def convert_sort(op: Op) -> Outputs:
    """aten::sort(self; dim=-1, descending=0) -> values, indices | argsort -> indices | msort(self) -> values."""
    x, name = op.input(0), name_of(op)
    op.args.ignore("stable")
    default = 0 if name == "msort" else -1
    axis = op.axis(op.args.integer("dim", default=default), op.rank(x), "dim")
    descending = op.args.flag("descending", default=False)
    values, order = op.emit("TopK", x, size_vector(op, x, axis), outputs=2, axis=axis, largest=int(descending))
    if name == "sort":
        return values, order
    return order if name == "argsort" else values


@family.converts("one_hot")
def convert_one_hot(op: Op) -> Value:
    """aten::one_hot(self; num_classes=-1): int64; by default there are as many classes as the largest index needs."""
    x = op.input(0)
    require_dtype(op, x, INDICES, "the indices")
    classes = op.args.integer("num_classes", default=-1)
    if classes >= 0:
        depth = op.const([classes], np.int64)
    else:
        depth = reshape(op, add(op, op.emit("ReduceMax", x, keepdims=0), 1), [1])
    return op.emit("OneHot", x, depth, op.const([0, 1], np.int64), axis=-1)


@family.converts("tril", "triu")
def triangle(op: Op) -> Value:
    """aten::tril | triu(self; diagonal=0)."""
    diagonal = op.const(op.args.integer("diagonal", default=0), np.int64)
    return op.emit("Trilu", op.input(0), diagonal, upper=int(name_of(op) == "triu"))


@family.converts("meshgrid")
def convert_meshgrid(op: Op) -> Outputs:
    """aten::meshgrid(tensors...): each vector along its own dim, expanded to all."""
    values = op.inputs
    dims = vector(op, [1 if op.rank(v) == 0 else size(op, v, 0) for v in values])
    count = len(values)
    shaped = (reshape(op, v, [*[1] * i, -1, *[1] * (count - 1 - i)]) for i, v in enumerate(values))
    return tuple(op.emit("Expand", v, dims) for v in shaped)


@family.converts("embedding_bag", expects=_SECOND_IS_INDEX)
def convert_embedding_bag(op: Op) -> Outputs:
    """aten::embedding_bag(weight, indices, offsets; mode=0, ...) -> bags, ...: sums (0), means (1) or maxima (2).

    A bag is the rows from its offset to the next one. The other outputs are for training.
    """
    op.args.ignore("scale_grad_by_freq", "sparse")
    if op.args.flag("include_last_offset", default=False) or op.has_input(3):
        op.unsupported("include_last_offset and weights of samples are not supported")
    weight, at, offsets = op.input(0), as_index(op, op.input(1)), as_index(op, op.input(2))
    mode = op.args.integer("mode", default=0)
    if mode not in (0, 1):
        op.unsupported(f"mode must be 0 (sum) or 1 (mean), not {mode}", code="invalid-argument")
    rows = op.emit("Gather", weight, at, axis=0)
    position = unsqueeze(op, op.emit("Range", *_range_of(op, at)), [0])
    ends = op.emit("Concat", _without_first(op, offsets), op.emit("Shape", at), axis=0)
    after = op.emit("GreaterOrEqual", position, unsqueeze(op, offsets, [1]))
    before = op.emit("Less", position, unsqueeze(op, ends, [1]))
    inside = cast(op, op.emit("And", after, before), op.dtype(weight))
    total = op.emit("MatMul", inside, rows)
    if mode == 0:
        return (total, None, None, None)
    count = binary(op, "Max", op.emit("ReduceSum", inside, op.const([1], np.int64), keepdims=1), 1.0)
    return (op.emit("Div", total, count), None, None, None)


def _range_of(op: Op, values: Value) -> tuple[Value, Value, Value]:
    return op.const(0, np.int64), op.emit("Size", values), op.const(1, np.int64)


def _without_first(op: Op, x: Value) -> Value:
    return op.emit("Slice", x, op.const([1], np.int64), op.const([np.iinfo(np.int64).max], np.int64))

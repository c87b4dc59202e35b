"""Caffe2's legacy and NumPy-style broadcasting as ONNX's; and the check for operands that must not broadcast."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import reshape_like, scalar
from caffe2_frontend.emit.operand_checks import require_dtype, require_equal
from caffe2_frontend.emit.reductions import sum_axes, wrapping_sum
from caffe2_frontend.emit.selection import true_indices
from caffe2_frontend.emit.shapes import known_size, sizes, squeeze, unsqueeze, vector
from caffe2_frontend.lowering.op import Op, Value, merge_shapes


def broadcast_operands(op: Op) -> tuple[Value, Value]:
    """Return the two operands of a binary operator, reshaped so that ONNX broadcasts them as Caffe2 does.

    With ``broadcast=0`` Caffe2 broadcasts as NumPy and ONNX do, and ignores ``axis``. With ``broadcast=1`` the result
    has the shape of the first operand: the second has one element, or its dims align with the first's from ``axis`` on
    (-1: with the last ones).
    """
    a, b = op.input(0), op.input(1)
    axis = broadcast_axis(op)
    return (a, align_dims(op, a, b, axis)) if op.args.flag("broadcast", default=False) else (a, b)


def _shared_hint(op: Op) -> str:
    """Return a hint if several operators read the second operand, which may be contradictory: they need other dims."""
    name, reads = op.view.inputs[1], op.lowering.reads.counts[op.view.inputs[1]]
    return f"{reads} operators read {name!r}: give this one a blob of its own" if reads > 1 else ""


def broadcast_axis(op: Op) -> int:
    """Return the axis at which legacy broadcasting begins, from ``axis`` or the letter ``axis_str``; -1: last dims."""
    axis = op.args.integer("axis", default=-1)
    letter = op.args.text("axis_str", default="")
    order = op.args.text("order", default="NCHW")
    if not letter:
        return axis
    if axis != -1 or len(letter) != 1 or letter not in order:
        op.unsupported(
            f"axis_str must be one letter of order {order!r}, without axis, not {letter!r}",
            hint=f"give axis_str (one of {', '.join(order)}) or axis, not both",
            code="invalid-argument",
        )
    return order.index(letter)


def align_dims(op: Op, a: Value, b: Value, axis: int) -> Value:
    """Return ``b`` with dims of size one appended, so that its dims align with those of ``a`` from ``axis`` on."""
    rank_a, rank_b = op.rank(a), op.rank(b)
    if rank_b == 0:
        return b
    start = rank_a - rank_b if axis == -1 else axis
    if not 0 <= start <= rank_a - rank_b:
        if all(not isinstance(d, int) or d == 1 for d in op.shape(b)):
            return scalar(op, b)
        op.unsupported(
            f"the second operand ({b.name!r}) has {rank_b} dims, which must fit into the {rank_a} of the first from "
            f"axis {axis} on",
            hint=_shared_hint(op),
            code="invalid-operands",
        )
    for dim_a, dim_b in zip(op.shape(a)[start : start + rank_b], op.shape(b), strict=True):
        if isinstance(dim_a, int) and isinstance(dim_b, int) and dim_b not in (1, dim_a):
            op.unsupported(
                f"the second operand's shape {op.shape(b)} must broadcast into the first's, {op.shape(a)}",
                code="invalid-operands",
            )
    return unsqueeze(op, b, range(rank_b, rank_a - start))


def require_same_shape(op: Op, values: Sequence[Value]) -> None:
    """Refuse operands that differ in rank or in a known dim, where ONNX would broadcast and Caffe2 does not."""
    first = op.shape(values[0])
    for value in values[1:]:
        shape = op.shape(value)
        dims = zip(first, shape, strict=False)
        if len(shape) != len(first) or any(isinstance(d, int) and isinstance(e, int) and d != e for d, e in dims):
            op.unsupported(f"the operands must have the same shape, not {first} and {shape}", code="invalid-operands")


def paired_operands(op: Op, first: int, second: int, dtypes: Collection[ir.DataType]) -> tuple[Value, Value]:
    """Return two operands that Caffe2 combines element by element, in the shape of the one of higher rank.

    Caffe2's gradients of functions of one operand take both as flat arrays: ranks may differ where the number of
    elements does not; otherwise it reads beyond the smaller one, which is refused. Arguments of broadcasting change
    nothing then.
    """
    op.args.ignore("broadcast", "axis", "axis_str", "order")
    a, b = op.input(first), op.input(second)
    for index, value in ((first, a), (second, b)):
        require_dtype(op, value, dtypes, f"input {index}")
    sizes = known_size(op, a), known_size(op, b)
    if op.rank(a) == op.rank(b) or None not in sizes:
        require_equal(op, *sizes, "the numbers of elements")
    if op.rank(a) == op.rank(b):
        require_same_shape(op, (a, b))
        return a, b
    like = max(a, b, key=op.rank)
    return reshape_like(op, a, like), reshape_like(op, b, like)


def sum_to(op: Op, x: Value, like: Value) -> Value:
    """Sum ``x`` over the dims along which ``like`` was broadcast to the shape of ``x``, as NumPy does; [like].

    This is the gradient of broadcasting. Which dims of ``like`` are 1 may be known at run time alone.
    """
    rank, rank_like = op.rank(x), op.rank(like)
    if rank_like > rank:
        op.unsupported(f"an operand of rank {rank_like} cannot broadcast to rank {rank}", code="invalid-operands")
    start = rank - rank_like
    pairs = list(enumerate(zip(op.shape(x)[start:], op.shape(like), strict=True), start))
    certain = [*range(start), *(axis for axis, (dim, small) in pairs if small == 1 and dim != 1)]
    leading = list(range(start))
    if all(small == 1 or _is_same(dim, small) for _, (dim, small) in pairs):
        keep = certain != leading
        summed = sum_axes(op, x, certain, keep=keep)
        summed = squeeze(op, summed, leading) if keep else summed
    else:
        is_one = op.emit("Equal", vector(op, [*[1] * start, *sizes(op, like)]), op.const([1], np.int64))
        axes = true_indices(op, is_one)
        summed = wrapping_sum(op, x, lambda part: op.emit("ReduceSum", part, axes, keepdims=1, noop_with_empty_axes=1))
        summed.shape = ir.Shape([None] * rank)
        summed = squeeze(op, summed, leading)
    if summed is not x and like.shape is not None:
        summed.shape = merge_shapes(summed.shape, list(like.shape))
    return summed


def sum_to_operand(op: Op, x: Value, aligned: Value, operand: Value) -> Value:
    """Sum ``x`` as :func:`sum_to` to an operand that :func:`align_dims` aligned; [operand]."""
    summed = sum_to(op, x, aligned)
    return summed if aligned is operand else reshape_like(op, summed, operand)


def _is_same(dim: int | ir.SymbolicDim, other: int | ir.SymbolicDim) -> bool:
    """Whether two dims are known to be equal."""
    return dim == other and (isinstance(dim, int) or dim.value is not None)

"""Matrix products: fully connected layers, (batched) products, and products with factored matrices."""

from __future__ import annotations

from math import prod

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.operand_checks import REALS, require_rank, takes
from caffe2_frontend.emit.shapes import (
    flatten,
    leading,
    product,
    reshape,
    size,
    sizes,
    slice_axis,
    transpose_matrix,
    unsqueeze,
)
from caffe2_frontend.interop.types import TensorInfo, of_rank
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("linear")


def _fc_operand(op: OpView, index: int) -> TensorInfo:
    """Describe operands by their ranks: X has axis + 1 dims, W has axis_w + 1, b has one."""
    if index == 0:
        return of_rank(op.args.integer("axis", default=1) + 1)
    return of_rank(max(op.args.integer("axis_w", default=1), 0) + 1 if index == 1 else 1)


@family.converts("FC", "FCTransposed", expects=_fc_operand, uniform=True)
@takes(REALS, 0, 1, 2)
def fully_connected(op: Op) -> Value:
    """FC | FCTransposed(X, W, b; axis=1, axis_w=1) -> Y.

    The dims of X from ``axis`` on count as one, K; those of W from ``axis_w`` on likewise. W is [M, K], or [K, M] if
    transposed; Y keeps the dims of X before ``axis``, where Gemm takes matrices only.
    """
    x, w, b = op.input(0), op.input(1), op.input(2)
    op.args.ignore("freeze_bias")
    rank = op.rank(x)
    axis = op.axis(op.args.integer("axis", default=1), rank)
    w = flatten(op, w, op.axis(op.args.integer("axis_w", default=1), op.rank(w), "axis_w"))
    transposed = op.type == "FCTransposed"
    if axis <= 1:
        y = op.emit("Gemm", flatten(op, x, axis), w, b, transB=None if transposed else 1)
        return y if axis == 1 else reshape(op, y, [size(op, y, 1)])
    if rank > axis + 1:
        x = reshape(op, x, [*sizes(op, x, 0, axis), product(op, sizes(op, x, axis))])
    y = op.emit("MatMul", x, w if transposed else transpose_matrix(op, w))
    return op.emit("Add", y, b)


@family.converts("MatMul", uniform=True)
@takes(REALS, 0, 1)
def matmul(op: Op) -> Value:
    """MatMul(A, B[, shape_like]; axis_a=1, axis_b=1, trans_a=0, trans_b=0) -> C.

    Both operands are flattened to matrices at ``axis_a`` and ``axis_b``. The result is a matrix, or has the shape of
    the third operand.
    """
    a, b = (
        flatten(op, v, op.axis(op.args.integer(name, default=1), op.rank(v), name))
        for v, name in ((op.input(0), "axis_a"), (op.input(1), "axis_b"))
    )
    trans_a, trans_b = (op.args.flag(name, default=False) for name in ("trans_a", "trans_b"))
    if trans_a or trans_b:
        y = op.emit("Gemm", a, b, transA=int(trans_a), transB=int(trans_b))
    else:
        y = op.emit("MatMul", a, b)
    return reshape(op, y, sizes(op, op.input(2))) if op.has_input(2) else y


@family.converts("BatchMatMul", uniform=True)
@takes(REALS, 0, 1)
def batch_matmul(op: Op) -> Value:
    """BatchMatMul(A, B; trans_a=0, trans_b=0, broadcast=0) -> C.

    Batch dims must agree unless ``broadcast``. Vectors are rows or columns as in NumPy's matmul; transposing one has no
    effect, and the product of two vectors is a vector of one element.
    """
    op.args.ignore("use_scratch")
    broadcast = op.args.flag("broadcast", default=False)
    a, b = (
        _swap_last(op, v) if op.args.flag(name, default=False) else v
        for v, name in ((op.input(0), "trans_a"), (op.input(1), "trans_b"))
    )
    if op.rank(a) == 1 and op.rank(b) == 1:
        return reshape(op, op.emit("MatMul", a, b), [1])
    if not broadcast:
        _require_same_batch(op, a, b)
    return op.emit("MatMul", a, b)


def _require_same_batch(op: Op, a: Value, b: Value) -> None:
    """Refuse batch dims that are known to differ."""
    for dim_a, dim_b in zip(reversed(op.shape(a)[:-2]), reversed(op.shape(b)[:-2]), strict=False):
        if isinstance(dim_a, int) and isinstance(dim_b, int) and dim_a != dim_b:
            reason = f"the batch dims of A {op.shape(a)} and B {op.shape(b)} must be equal"
            op.unsupported(reason, "set broadcast=1", code="invalid-operands")


def _swap_last(op: Op, x: Value) -> Value:
    """Transpose the last two dims; a vector is returned unchanged."""
    rank = op.rank(x)
    if rank < 2:
        return x
    return op.emit("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])


@family.converts("ElementwiseLinear")
@takes(REALS, 0, 1, 2)
def elementwise_linear(op: Op) -> Value:
    """ElementwiseLinear(X, w, b; axis=1) -> Y: ``Y = X * w + b``.

    ``w`` and ``b`` hold one element for each index of the dims of X from ``axis`` on.
    """
    x, w, b = op.input(0), op.input(1), op.input(2)
    rank = op.rank(x)
    axis = op.axis(op.args.integer("axis", default=1), rank)
    if axis == rank - 1:
        return op.emit("Add", op.emit("Mul", x, w), b)
    tail = sizes(op, x, axis)
    return op.emit("Add", op.emit("Mul", x, reshape(op, w, tail)), reshape(op, b, tail))


@family.converts("ConcatBatchMatMulBatchGatherOp")
@takes(REALS, 1)
def pairwise_products(op: Op) -> Value:
    """ConcatBatchMatMulBatchGatherOp(indices, X0, X1, ...) -> Y.

    The K operands X are [N, D]. For each example the K x K matrix of their dot products is computed, flattened, and the
    elements at the indices are returned.
    """
    rows = op.emit("Concat", *(unsqueeze(op, x, [1]) for x in op.inputs[1:]), axis=1)
    products = op.emit("MatMul", rows, _swap_last(op, rows))
    return op.emit("Gather", op.emit("Flatten", products, axis=1), op.input(0), axis=1)


@family.converts("TT")
@takes(REALS, 0, 1, 2)
def tensor_train(op: Op) -> Value:
    """TT(X, b, cores; inp_sizes, out_sizes, tt_ranks) -> Y.

    ``Y = X @ W + b`` with W in tensor-train format: a vector holds its cores one after another, the last one first.
    Core i is a matrix of ``inp_sizes[i] * tt_ranks[i + 1]`` rows and ``tt_ranks[i] * out_sizes[i]`` columns. What
    follows the cores, or as many elements of b as there are outputs, is not read.
    """
    x, bias, cores = op.input(0), op.input(1), op.input(2)
    inputs, outputs, ranks = (op.args.integers(name) for name in ("inp_sizes", "out_sizes", "tt_ranks"))
    if len(inputs) != len(outputs) or len(ranks) != len(inputs) + 1:
        op.unsupported(
            "inp_sizes and out_sizes must have equally many elements, and tt_ranks one more", code="invalid-argument"
        )
    # Contract one core after the other, from the last. Each transposition moves the core's output dim to the front, so
    # that the next core's input dim and rank are the last dims of y.
    y, start = x, 0
    for i in reversed(range(len(inputs))):
        rows, columns = inputs[i] * ranks[i + 1], ranks[i] * outputs[i]
        core = reshape(op, slice_axis(op, cores, 0, start, start + rows * columns), [rows, columns])
        y = op.emit("MatMul", reshape(op, y, [-1, rows]), core)
        y = op.emit("Transpose", reshape(op, y, [-1, outputs[i]]), perm=[1, 0])
        start += rows * columns
    width = prod(outputs)
    y = op.emit("Transpose", reshape(op, y, [-1, width]), perm=[1, 0])
    require_rank(op, bias, 1, "the bias")
    return op.emit("Add", reshape(op, y, [size(op, x, 0), width]), leading(op, bias, width))

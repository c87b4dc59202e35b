"""Gradients of fully connected layers and of element-by-element linear ones."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import aligned, known_equal, mul, reshape_like
from caffe2_frontend.emit.operand_checks import REALS, takes
from caffe2_frontend.emit.reductions import reduce_axes
from caffe2_frontend.emit.shapes import flatten, known_size, reshape, size
from caffe2_frontend.interop.types import TensorInfo, of_rank
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("linear_gradient")


def _fc_operand(op: OpView, index: int) -> TensorInfo:
    """Describe operands by their ranks: X has axis + 1 dims, W has axis_w + 1, and dY the rank of X."""
    if index == 1:
        return of_rank(max(op.args.integer("axis_w", default=1), 0) + 1)
    return of_rank(op.args.integer("axis", default=1) + 1)


@family.converts("FCGradient", "FCTransposedGradient", expects=_fc_operand)
@takes(REALS, 0, 1, 2)
def fully_connected_gradient(op: Op) -> tuple[Value, ...]:
    """FCGradient | FCTransposedGradient(X, W, dY; axis=1, axis_w=1) -> dW, db[, dX].

    As matrices, with X [N, K], dY [N, M] and W [M, K] ([K, M] if transposed): ``dW = dY' X``, ``dX = dY W``, and db
    the sum of the rows of dY.
    """
    op.args.ignore("freeze_bias")
    x, w, dy = op.input(0), op.input(1), op.input(2)
    axis = op.axis(op.args.integer("axis", default=1), op.rank(x))
    axis_w = op.axis(op.args.integer("axis_w", default=1), op.rank(w), "axis_w")
    rows, matrix, of_y = flatten(op, x, axis), flatten(op, w, axis_w), dy
    transposed = op.type == "FCTransposedGradient"
    columns = size(op, matrix, 1 if transposed else 0)
    if transposed and axis_w == 0 and known_size(op, w) in {None, 0}:  # W has any number of rows if M = 0
        matrix = reshape(op, w, [size(op, rows, 1), columns])
    dy = dy if op.rank(dy) == 2 and axis == 1 else reshape(op, dy, [size(op, rows, 0), columns])
    left, right = (rows, dy) if transposed else (dy, rows)
    dw = op.emit("Gemm", left, right, transA=1, shape=matrix.shape)
    dw = dw if matrix is w else reshape_like(op, dw, w)
    db = reduce_axes(op, "ReduceSum", dy, [0])
    if not op.wants(2):
        return dw, db
    if not transposed and axis == op.rank(x) - 1 and _have_equal_rows(x, of_y):
        return dw, db, op.emit("MatMul", of_y, matrix)
    dx = op.emit("Gemm", dy, matrix, transB=1 if transposed else None, shape=rows.shape)
    return dw, db, dx if rows is x else reshape_like(op, dx, x)


def _have_equal_rows(x: Value, dy: Value) -> bool:
    """Whether X and dY, which have as many rows, have equal dims before the last: all but one are known to be equal."""
    if x.shape is None or dy.shape is None or len(x.shape) != len(dy.shape) or len(x.shape) == 2:
        return False
    pairs = list(zip(x.shape[:-1], dy.shape[:-1], strict=True))
    return sum(not known_equal(ir.Shape([a]), ir.Shape([b])) for a, b in pairs) <= 1


@family.converts("ElementwiseLinearGradient", expects={2: TensorInfo(shape=(None,))})
@takes(REALS, 0, 1, 2)
def elementwise_linear_gradient(op: Op) -> tuple[Value, Value, Value]:
    """ElementwiseLinearGradient(dY, X, w; axis=1) -> dX, dw, db: ``dY * w``, and the sums of ``dY * X`` and of dY."""
    dy, x, w = op.input(0), op.input(1), op.input(2)
    axis = op.axis(op.args.integer("axis", default=1), op.rank(x))
    dy_rows, x_rows = flatten(op, aligned(op, dy, x), axis), flatten(op, x, axis)
    dx = mul(op, dy_rows, op.emit("Reshape", w, op.const([-1], np.int64)))
    products = mul(op, dy_rows, x_rows)
    dw, db = (reshape_like(op, reduce_axes(op, "ReduceSum", value, [0]), w) for value in (products, dy_rows))
    return reshape_like(op, dx, x), dw, db

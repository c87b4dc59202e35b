"""Gradients of norms, and of division by them."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import binary, div, mul, scalar, sub
from caffe2_frontend.emit.broadcast import require_same_shape
from caffe2_frontend.emit.operand_checks import REALS, SINGLE, require_dim, require_rank, takes
from caffe2_frontend.emit.reductions import reduce_axes
from caffe2_frontend.emit.shapes import cast, product, sizes
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("statistics_gradient")

_FLOAT: Final = TensorInfo(ir.DataType.FLOAT)
# Elements up to this count as 0, norms as this at least.
_EPSILON: Final = 1e-12


@family.converts("LpNormGradient", expects={0: _FLOAT, 1: TensorInfo(ir.DataType.FLOAT, (1,))})
@takes(REALS, 0, 1)
def lp_norm_gradient(op: Op) -> Value:
    """LpNormGradient(X, dY; p=2, average=0) -> dX: ``dY * sign(X)`` if p is 1, ``2 * dY * X`` if it is 2.

    The sign of an element up to 1e-12, or of a NaN, is 0. With ``average`` both are divided by the number of elements.
    """
    x, dy = op.input(0), op.input(1)
    require_rank(op, dy, 1, "the gradient")
    require_dim(op, dy, 0, 1, "the gradient")
    p = op.args.integer("p", default=2)
    if p not in (1, 2):
        op.unsupported(f"p must be 1 or 2, not {p}", code="invalid-argument")
    factor = scalar(op, dy) if p == 1 else mul(op, scalar(op, dy), 2.0)
    if op.args.flag("average", default=False):
        count = product(op, sizes(op, x))
        factor = div(
            op, factor, float(max(count, 1)) if isinstance(count, int) else scalar(op, cast(op, count, op.dtype(x)))
        )
    if p == 2:
        return mul(op, x, factor)
    counts = binary(op, "Greater", op.emit("Abs", x), _EPSILON)
    return mul(op, op.emit("Where", counts, op.emit("Sign", x), op.const(0, x)), factor)


@family.converts("NormalizeGradient", expects={0: _FLOAT, 1: _FLOAT})
@takes(SINGLE, 0, 1)
def normalize_gradient(op: Op) -> Value:
    """NormalizeGradient(X, dY; axis=-1) -> dX: ``dY / norm - X / norm**3 * sum(X * dY)``.

    The norm along ``axis`` counts as 1e-12 at least. The order of operations is Caffe2's: it decides what overflows.
    """
    x, dy = op.input(0), op.input(1)
    require_same_shape(op, (x, dy))
    axes = [op.axis(op.args.integer("axis", default=-1), op.rank(x))]
    norm = binary(op, "Max", op.emit("ReduceL2", x, op.const(axes, np.int64)), _EPSILON)
    cubed = binary(op, "Pow", norm, 3)
    along = reduce_axes(op, "ReduceSum", mul(op, x, dy), axes, keep=True)
    return sub(op, div(op, dy, norm), mul(op, div(op, x, cubed), along))

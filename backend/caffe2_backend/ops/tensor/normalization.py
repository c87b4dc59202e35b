"""Softmax and its relatives, and normalization of axes by mean, variance or norm."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.emit.doubles import elementwise
from caffe2_backend.emit.reduction import norm, reduce_axes
from caffe2_backend.emit.selection import along_last
from caffe2_backend.emit.shapes import arange, dim_of
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import DOUBLE, FLOAT

family = Family("axis_normalization")


def _operand(op: Op, *dtypes: ir.DataType) -> tuple[Value, int]:
    """Return input 0, which must be float or one of ``dtypes``, and the attribute ``axis``, -1 by default."""
    axis = op.axis(op.args.integer("axis", default=-1), op.rank(op.input(0)))
    return op.require(op.input(0), FLOAT, *dtypes), axis


@family.converts("Softmax")
def softmax(op: Op) -> Value:
    """``Softmax(input; axis=-1) -> output``: Softmax of the last axis, with transposes around it.

    Of doubles exp(x - max) / sum(exp(x - max)).
    """
    x, axis = _operand(op, DOUBLE)
    rank = op.rank(x)
    if x.dtype == DOUBLE:
        grown = elementwise(op, "Exp", x - reduce_axes(op, "ReduceMax", x, [axis], keep=True))
        return grown / reduce_axes(op, "ReduceSum", grown, [axis], keep=True)
    return along_last(op, x, axis, rank, lambda last: op.emit("Softmax", last, axis=rank - 1))


@family.converts("LogSoftmax")
def log_softmax(op: Op) -> Value:
    """``LogSoftmax(input; axis=-1) -> output``: (x - max) - log(sum(exp(x - max)))."""
    x, axis = _operand(op, DOUBLE)
    shifted = x - reduce_axes(op, "ReduceMax", x, [axis], keep=True)
    total = reduce_axes(op, "ReduceSum", elementwise(op, "Exp", shifted), [axis], keep=True)
    return shifted - elementwise(op, "Log", total)


@family.converts("Hardmax")
def hardmax(op: Op) -> Value:
    """``Hardmax(input; axis=-1) -> output``: ArgMax, compared with the indices."""
    x, axis = _operand(op)
    rank, size = op.rank(x), op.static_dim(x, axis)

    def compute(last: Value) -> Value:
        first = op.emit("ArgMax", last, axis=rank - 1, keepdims=1)
        return first.equals(arange(op, dim_of(op, x, axis) if size is None else size)).cast(FLOAT)

    return along_last(op, x, axis, rank, compute)


@family.converts("MeanVarianceNormalization")
def mean_variance_normalization(op: Op) -> Value:
    """``MeanVarianceNormalization(X; axes=[0, 2, 3]) -> Y``: (x - mean) / (sqrt(variance) + 1e-9)."""
    axes = [op.axis(axis, op.rank(op.input(0))) for axis in op.args.integers("axes", default=()) or (0, 2, 3)]
    x = op.require(op.input(0), FLOAT)
    centered = x - reduce_axes(op, "ReduceMean", x, axes, keep=True)
    deviation = op.emit("Sqrt", reduce_axes(op, "ReduceMean", op.emit("Sqr", centered), axes, keep=True))
    return centered / (deviation + 1e-9)


_NORMS: Final = {1: "ReduceL1", 2: "ReduceL2"}


@family.converts("LpNormalization")
def lp_normalization(op: Op) -> Value:
    """``LpNormalization(input; axis=-1, p=2) -> output``: x / norm; where the norm is 0, x is 0 and divided by 1."""
    x, axis = _operand(op, DOUBLE)
    p = op.args.integer("p", default=2)
    if p not in _NORMS:
        op.unsupported(f"p must be 1 or 2, not {p}", code="invalid-argument")
    size = norm(op, _NORMS[p], x, [axis], keep=True)
    return x / (size + (size <= 0).cast(x.dtype))


@family.converts("LayerNormalization")
def layer_normalization(op: Op) -> tuple[Value, Value, Value | None]:
    """``LayerNormalization(X, Scale, B=None; axis=-1, epsilon=1e-5) -> Y, Mean, InvStdDev``: LayerNorm, or arithmetic.

    (x - mean) / sqrt(variance + epsilon) * scale + bias over the last axes.
    """
    epsilon = op.args.number("epsilon", default=1e-5)
    op.args.ignore("stash_type")
    x, axis = _operand(op, DOUBLE)
    axes, bias = list(range(axis, op.rank(x))), op.optional(2)
    sizes = op.static_shape(op.input(1))
    shapes = [list(op.shape(value)) for value in (op.input(1), bias) if value is not None]
    # Caffe2's mean and deviation of several axes have one dim of 1 in their place, ONNX's one for each.
    same_dims = len(axes) == 1 or not (op.wants(1) or op.wants(2))
    own = x.dtype == FLOAT and op.rank(x) > 1 and sizes is not None and same_dims
    if own and all(shape == list(op.shape(x))[axis:] for shape in shapes):
        bias = op.const(np.zeros(sizes), FLOAT) if bias is None else bias
        affine = {"axis": axis, "epsilon": epsilon, "elementwise_affine": 1}
        y, mean, deviation = op.emit("LayerNorm", x, op.input(1), bias, outputs=3, **affine)
        return y, mean, op.emit("Reciprocal", deviation) if op.wants(2) else None
    mean = reduce_axes(op, "ReduceMean", x, axes, keep=True)
    centered = x - mean
    variance = reduce_axes(op, "ReduceMean", elementwise(op, "Sqr", centered), axes, keep=True)
    deviation = op.emit("Sqrt", variance + epsilon)
    scaled = centered / deviation * op.input(1)
    y = scaled if bias is None else scaled + bias
    return y, mean, elementwise(op, "Reciprocal", deviation) if op.wants(2) else None


@family.converts("RMSNormalization")
def rms_normalization(op: Op) -> Value:
    """``RMSNormalization(X, scale; axis=-1, epsilon=1e-5) -> Y``: x / sqrt(mean of squares + epsilon) * scale."""
    epsilon = op.args.number("epsilon", default=1e-5)
    op.args.ignore("stash_type")
    x, axis = _operand(op)
    scale = op.require(op.input(1), FLOAT)
    square = reduce_axes(op, "ReduceMean", op.emit("Sqr", x), list(range(axis, op.rank(x))), keep=True)
    return x / op.emit("Sqrt", square + epsilon) * scale

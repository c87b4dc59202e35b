"""Rows and images cut to those of another operand, and the gradients: Detectron's SampleAs and SpatialNarrowAs."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import binary, sub
from caffe2_frontend.emit.operand_checks import SINGLE, require_equal, require_min_rank, require_rank, takes
from caffe2_frontend.emit.selection import true_indices
from caffe2_frontend.emit.shapes import Size, as_vector, size, unsqueeze, vector
from caffe2_frontend.interop.types import FLOAT, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("samples")

_IMAGE: Final = TensorInfo(FLOAT, (None,) * 4)
_ROWS: Final = {0: TensorInfo(FLOAT), 1: TensorInfo(ir.DataType.INT32, (None,)), 2: TensorInfo(FLOAT)}
_TYPES: Final = (FLOAT, ir.DataType.INT32)


@family.converts("SampleAs", expects=_ROWS)
@takes(SINGLE, 0)
def sample_as(op: Op) -> Value:
    """SampleAs(X, labels) -> Y: the rows of X whose label is positive."""
    return op.emit("Compress", op.input(0), _positive(op), axis=0)


@family.converts("SampleAsGradient", expects=_ROWS)
@takes(SINGLE, 0, 2)
def sample_as_gradient(op: Op) -> Value:
    """SampleAsGradient(X, labels, dY) -> dX: dY in the rows whose label is positive, 0 in the others."""
    x = op.input(0)
    zeros = op.emit("Expand", op.const(0.0, x), op.emit("Shape", x), shape=op.shape(x))
    return op.emit("ScatterND", zeros, unsqueeze(op, true_indices(op, _positive(op)), [1]), op.input(2))


def _positive(op: Op) -> Value:
    """Return the mask of the rows whose label is positive."""
    x, labels = op.input(0), op.input(1)
    require_min_rank(op, x, 1, "X")
    require_min_rank(op, labels, 1, "the labels")
    require_equal(op, op.static_dim(x, 0), op.static_dim(labels, 0), "the rows of X and the labels")
    return binary(op, "Greater", as_vector(op, labels), 0)


@family.converts("SpatialNarrowAs", expects={0: _IMAGE, 1: _IMAGE})
@takes(_TYPES, 0)
def spatial_narrow_as(op: Op) -> Value:
    """SpatialNarrowAs(A, B) -> C: the first rows and columns of A [N, C, H, W], as many as B [N, C, h, w] has.

    B may also be [N, h, w].
    """
    a, b = op.input(0), op.input(1)
    require_rank(op, a, 4, "A")
    if op.rank(b) != 3:
        require_rank(op, b, 4, "B")
        require_equal(op, op.static_dim(a, 1), op.static_dim(b, 1), "the channels of A and B")
    require_equal(op, op.static_dim(a, 0), op.static_dim(b, 0), "the images of A and B")
    dims = [op.static_dim(value, axis) for axis in (-2, -1) for value in (a, b)]
    for whole, part in (dims[:2], dims[2:]):
        if whole is not None and part is not None and whole < part:
            op.unsupported(f"B must not be larger than A: {part} and {whole} given", code="invalid-operands")
    ends = vector(op, [size(op, b, axis) for axis in (-2, -1)])
    shape = [*op.shape(a)[:2], *op.shape(b)[-2:]]
    return op.emit("Slice", a, op.const([0, 0], np.int64), ends, op.const([2, 3], np.int64), shape=shape)


@family.converts("SpatialNarrowAsGradient", expects={0: _IMAGE, 1: _IMAGE, 2: _IMAGE})
@takes(_TYPES, 0, 2)
def spatial_narrow_as_gradient(op: Op) -> Value:
    """SpatialNarrowAsGradient(A, B, dC) -> dA: dC, padded with zeros."""
    a, dc = op.input(0), op.input(2)
    for value, what in ((a, "A"), (dc, "the gradient")):
        require_rank(op, value, 4, what)
    pads = vector(op, [*[0] * 6, *(_difference(op, a, dc, axis) for axis in (2, 3))])
    return op.emit("Pad", dc, pads, shape=op.shape(a))


def _difference(op: Op, a: Value, b: Value, axis: int) -> Size:
    """Return how much larger ``a`` is along an axis."""
    both = size(op, a, axis), size(op, b, axis)
    if isinstance(both[0], int) and isinstance(both[1], int):
        return both[0] - both[1]
    return sub(op, *(vector(op, [value]) for value in both))

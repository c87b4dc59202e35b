"""Gradients of softmax, alone and with the loss of a classification."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import aligned, binary, div, mul, reshape_like, scalar, sub, total
from caffe2_frontend.emit.first_element import first_element
from caffe2_frontend.emit.layers.losses import loss_scale, one_hot, pixel_classes, pixel_weights
from caffe2_frontend.emit.layout import require_nchw
from caffe2_frontend.emit.operand_checks import REALS, require_rank, takes
from caffe2_frontend.emit.reductions import reduce_axes
from caffe2_frontend.emit.shapes import as_vector, cast, flatten, size, unsqueeze, vector
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("softmax_gradient")

_FLOAT: Final = TensorInfo(ir.DataType.FLOAT)


@family.converts("SoftmaxGradient", expects={0: _FLOAT, 1: _FLOAT})
@takes(REALS, 0, 1)
def softmax_gradient(op: Op) -> Value:
    """SoftmaxGradient(Y, dY; axis=1) -> dX: ``Y * (dY - sum(Y * dY))``, with the sum over the dims from ``axis`` on."""
    y, dy = op.input(0), op.input(1)
    rank = op.rank(y)
    axis = op.axis(op.args.integer("axis", default=1), rank)
    rows, gradient = (value if axis == rank - 1 else flatten(op, value, axis) for value in (y, dy))
    last = op.rank(rows) - 1
    inner = reduce_axes(op, "ReduceSum", mul(op, rows, gradient), [last], keep=True)
    return reshape_like(op, mul(op, rows, sub(op, gradient, inner)), y)


def _operand(op: OpView, index: int) -> TensorInfo:
    """Describe the labels: probabilities (float) with ``label_prob``, else class indices (int32)."""
    indices = index == 1 and not op.args.integer("label_prob", default=0)
    return TensorInfo(ir.DataType.INT32) if indices else _FLOAT


@family.converts("SoftmaxWithLossGradient", expects=_operand)
@takes(REALS, 0)
def softmax_with_loss_gradient(op: Op) -> Value:
    """SoftmaxWithLossGradient(X, labels[, weights], P, dloss; axis=1, label_prob=0, scale=1.0, ...) -> dX.

    ``(P - labels) * weights * scale * dloss / sum(weights)``, with indices of classes as one-hot rows; with
    average_by_batch_size=1 (default 0) the number of rows takes the place of the sum. Where the sum is not positive,
    Caffe2 leaves out the factors behind the weights.
    """
    require_nchw(op, "the operands")
    op.args.ignore("only_loss")
    scale = loss_scale(op)
    count = len(op.inputs)
    x, labels, probability, loss = op.input(0), op.input(1), op.input(count - 2), first_element(op, op.input(count - 1))
    rank = op.rank(x)
    rows = flatten(op, probability, op.axis(op.args.integer("axis", default=1), rank))
    likely = bool(op.args.integer("label_prob", default=0))
    targets = reshape_like(op, labels, rows) if likely else one_hot(op, as_vector(op, labels), rows, axis=-1)
    difference = sub(op, rows, targets)
    by_rows = op.args.integer("average_by_batch_size", default=0)
    numerator = mul(op, loss, scale) if scale != 1.0 else loss
    if count == 5:
        weights = as_vector(op, op.input(2))
        difference = mul(op, difference, unsqueeze(op, weights, [1]))
        divisor = _row_count(op, rows) if by_rows else None
        factor = _over_total(op, numerator, weights, otherwise=op.const(1.0, numerator), divisor=divisor)
        return reshape_like(op, mul(op, difference, factor), x)
    return reshape_like(op, mul(op, difference, div(op, numerator, _row_count(op, rows))), x)


def _row_count(op: Op, rows: Value) -> Value:
    return cast(op, scalar(op, vector(op, [size(op, rows, 0)])), op.dtype(rows))


@family.converts(
    "SpatialSoftmaxWithLossGradient",
    expects={0: TensorInfo(ir.DataType.FLOAT, (None,) * 4), 1: TensorInfo(ir.DataType.INT32, (None,) * 3)},
)
@takes(REALS, 0)
def spatial_softmax_with_loss_gradient(op: Op) -> Value:
    """SpatialSoftmaxWithLossGradient(X, labels[, weights], P, dloss; order="NCHW", scale=1.0) -> dX.

    As for SoftmaxWithLoss, with a class for each pixel of X [N, classes, H, W]. Pixels labelled -1 do not count. Where
    the sum is not positive, Caffe2 leaves out the division and the scale.
    """
    require_nchw(op, "the operands")
    op.args.ignore("only_loss")
    scale = loss_scale(op)
    count = len(op.inputs)
    x, labels, loss = op.input(0), op.input(1), first_element(op, op.input(count - 1))
    require_rank(op, labels, 3, "the labels")
    probability = aligned(op, op.input(count - 2), x)
    classes, counts = pixel_classes(op, labels)
    targets = one_hot(op, classes, probability, axis=1)
    weights = cast(op, counts, op.dtype(probability))
    if count == 5:
        weights = mul(op, weights, pixel_weights(op, op.input(2), x))
    difference = mul(op, sub(op, probability, targets), unsqueeze(op, weights, [1]))
    numerator = mul(op, loss, scale) if scale != 1.0 else loss
    return mul(op, difference, _over_total(op, numerator, weights, otherwise=loss))


def _over_total(op: Op, numerator: Value, weights: Value, otherwise: Value, divisor: Value | None = None) -> Value:
    """Return the numerator over ``divisor``, by default the sum of weights; another factor unless that is positive."""
    weight = total(op, weights)
    is_positive = binary(op, "Greater", weight, 0.0)
    return op.emit("Where", is_positive, div(op, numerator, weight if divisor is None else divisor), otherwise)

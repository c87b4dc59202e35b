"""Smooth L1 losses of boxes, of all elements or of selected pixels, and their gradients: Detectron's library."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, aligned, binary, div, mul, scalar, sub, total
from caffe2_frontend.emit.layers.losses import loss_scale
from caffe2_frontend.emit.operand_checks import (
    SINGLE,
    require_dim,
    require_equal,
    require_min_rank,
    require_rank,
    takes,
)
from caffe2_frontend.emit.shapes import cast, size, unsqueeze
from caffe2_frontend.interop.types import FLOAT, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("smooth_l1")

_FLOAT: Final = TensorInfo(FLOAT)
_ROWS: Final = TensorInfo(FLOAT, (None, 4))
_SELECTED: Final = {0: TensorInfo(FLOAT, (None,) * 4), 1: _ROWS, 2: _ROWS, 3: _FLOAT, 4: _FLOAT}


@family.converts("SmoothL1Loss", expects=dict.fromkeys(range(4), _FLOAT))
@takes(SINGLE, 0, 1, 2, 3)
def smooth_l1_loss(op: Op) -> Value:
    """SmoothL1Loss(Y_hat, Y, alpha_in, alpha_out; beta=1.0, scale=1.0) -> loss.

    ``scale / N`` times the sum of ``alpha_out * f(alpha_in * (Y_hat - Y))``, with ``f(d) = d * d / (2 * beta)`` where
    ``|d| < beta``, else ``|d| - beta / 2``.
    """
    beta, (difference, _, weight) = _beta(op), _weighted_difference(op)
    return mul(op, total(op, mul(op, _smooth(op, difference, beta), weight)), _share(op))


@family.converts("SmoothL1LossGradient", expects=dict.fromkeys(range(5), _FLOAT))
@takes(SINGLE, 0, 1, 2, 3, 4)
def smooth_l1_loss_gradient(op: Op) -> Value:
    """SmoothL1LossGradient(Y_hat, Y, alpha_in, alpha_out, d_loss; beta=1.0, scale=1.0) -> d_Y_hat."""
    beta, (difference, inner, outer) = _beta(op), _weighted_difference(op)
    factor = mul(op, scalar(op, op.input(4)), _share(op))
    return mul(op, _slope(op, difference, beta), inner, outer, factor)


@family.converts("SelectSmoothL1Loss", expects=_SELECTED)
@takes(SINGLE, 0, 1, 2, 3)
def select_smooth_l1_loss(op: Op) -> Value:
    """SelectSmoothL1Loss(Y_hat, Y, L, S; beta=1.0, scale=1.0) -> loss.

    Each row of L is (image, first channel, row, column) of a pixel of Y_hat [N, D, H, W], of which four channels are
    compared with a row of Y [M, 4]. The sum of the losses is divided by S, which counts as 1 at least.
    """
    beta, (difference, _) = _beta(op), _selected_difference(op)
    return div(op, mul(op, total(op, _smooth(op, difference, beta)), loss_scale(op)), _count(op))


@family.converts("SelectSmoothL1LossGradient", expects=_SELECTED)
@takes(SINGLE, 0, 1, 2, 3, 4)
def select_smooth_l1_loss_gradient(op: Op) -> Value:
    """SelectSmoothL1LossGradient(Y_hat, Y, L, S, d_loss; beta=1.0, scale=1.0) -> d_Y_hat: 0 but for L's pixels."""
    beta, (difference, places) = _beta(op), _selected_difference(op)
    factor = div(op, mul(op, scalar(op, op.input(4)), loss_scale(op)), _count(op))
    image = op.input(0)
    zeros = op.emit("Expand", op.const(0.0, image), op.emit("Shape", image), shape=op.shape(image))
    return op.emit("ScatterND", zeros, places, mul(op, _slope(op, difference, beta), factor))


def _beta(op: Op) -> float:
    """Return the argument ``beta``, which must be positive."""
    beta = op.args.number("beta", default=1.0)
    if not beta > 0:  # nor a NaN
        op.unsupported(f"beta must be positive, not {beta}", code="invalid-argument")
    return beta


def _smooth(op: Op, difference: Value, beta: float) -> Value:
    """Return the loss of differences: with ``m = min(|d|, beta)`` both cases are ``m * (|d| - m / 2) / beta``."""
    distance = op.emit("Abs", difference)
    near = binary(op, "Min", distance, beta)
    loss = mul(op, near, sub(op, distance, mul(op, near, 0.5)))
    return loss if beta == 1.0 else div(op, loss, beta)


def _slope(op: Op, difference: Value, beta: float) -> Value:
    """Return the derivative of the loss: ``d / beta``, from -1 to 1."""
    slope = difference if beta == 1.0 else div(op, difference, beta)
    return op.emit("Clip", slope, op.const(-1.0, slope), op.const(1.0, slope))


def _share(op: Op) -> Value:
    """Return the factor ``scale / N`` of the loss."""
    x = op.input(0)
    count, scale = size(op, x, 0), loss_scale(op)
    if isinstance(count, int):
        return op.const(scale / max(count, 1), x)
    return div(op, scale, scalar(op, cast(op, count, op.dtype(x))))


def _weighted_difference(op: Op) -> tuple[Value, Value, Value]:
    """Return ``alpha_in * (Y_hat - Y)``, alpha_in and alpha_out; Caffe2 compares rows and sizes alone."""
    x = op.input(0)
    for index, what in enumerate(("Y_hat", "Y")):
        require_min_rank(op, op.input(index), 1, what)
    require_equal(op, op.static_dim(x, 0), op.static_dim(op.input(1), 0), "the rows of Y_hat and Y")
    y, inner, outer = (aligned(op, op.input(index), x) for index in (1, 2, 3))
    return mul(op, inner, sub(op, x, y)), inner, outer


def _selected_difference(op: Op) -> tuple[Value, Value]:
    """Return the differences [M, 4] of L's pixels from Y, and the indices [M, 4, 4] of the former in Y_hat."""
    x, y, pixels = op.input(0), op.input(1), op.input(2)
    require_rank(op, x, 4, "Y_hat")
    for value, what in ((y, "Y"), (pixels, "L")):
        require_rank(op, value, 2, what)
        require_dim(op, value, 1, 4, what)
    channels = np.zeros((4, 4))
    channels[:, 1] = range(4)
    places = add(op, unsqueeze(op, cast(op, pixels, ir.DataType.INT64), [1]), op.const(channels, np.int64))
    return sub(op, op.emit("GatherND", x, places), y), places


def _count(op: Op) -> Value:
    return binary(op, "Max", scalar(op, op.input(3)), 1.0)

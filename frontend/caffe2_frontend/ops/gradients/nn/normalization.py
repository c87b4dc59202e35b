"""Gradients of normalization: by the moments of a batch, an image, a group of channels or a layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import Operand, add, binary, div, mul, reshape_like, scalar, square, sub
from caffe2_frontend.emit.broadcast import require_same_shape
from caffe2_frontend.emit.layers.affine import as_tail, per_channel
from caffe2_frontend.emit.layers.moments import inverse_deviation, moments
from caffe2_frontend.emit.layers.neighbours import mean_over_channels
from caffe2_frontend.emit.layout import channels_last
from caffe2_frontend.emit.operand_checks import REALS, SINGLE, require_groups, require_min_rank, require_rank, takes
from caffe2_frontend.emit.reductions import reduce_axes
from caffe2_frontend.emit.shapes import cast, product, quotient, reshape, size, sizes, unsqueeze
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("normalization_gradient")

_VECTOR: Final = TensorInfo(ir.DataType.FLOAT, (None,))
_FLOAT: Final = TensorInfo(ir.DataType.FLOAT)


def _operand(_: OpView, index: int) -> TensorInfo:
    """Describe X and dY as float of any rank, and the others, per channel, as float vectors."""
    return _FLOAT if index in (0, 2) else _VECTOR


@family.converts("SpatialBNGradient", expects=_operand)
@takes(REALS, 0, 2)
def spatial_bn_gradient(op: Op) -> tuple[Value, Value, Value]:
    """SpatialBNGradient(X, scale, dY, mean, inv_std[, sums]; order="NCHW", num_batches=1, ...) -> dX, dscale, dbias.

    With xhat the normalized X and n the number of elements of a channel: ``dbias`` is the sum of dY over a channel,
    ``dscale`` that of ``dY * xhat``, and ``dX = scale * inv_std * (dY - (dbias + xhat * dscale) / n)``. If
    ``num_batches`` is above 1, two more operands hold the sums of dscale and of dbias over that many batches of this
    size, and the results are their means. Of one below 1 they are asked for their shapes alone.
    """
    op.args.ignore("epsilon", "momentum", "is_test")
    x, dy = op.input(0), op.input(2)
    require_min_rank(op, x, 3, "X")
    require_same_shape(op, (x, dy))
    channel = op.rank(x) - 1 if channels_last(op) else 1
    axes = [axis for axis in range(op.rank(x)) if axis != channel]
    batches = op.args.integer("num_batches", default=1)
    scale, mean, inverse = (per_channel(op, x, index, channel) for index in (1, 3, 4))
    centered = sub(op, x, _spread(op, mean, x, channel))
    if batches > 1:
        by_scale, by_bias = (per_channel(op, x, index, channel) for index in (5, 6))
    else:
        by_scale = mul(op, reduce_axes(op, "ReduceSum", mul(op, dy, centered), axes), inverse)
        by_bias = reduce_axes(op, "ReduceSum", dy, axes)
    count = _count(op, x, axes, max(batches, 1))
    alpha = mul(op, scale, inverse)
    beta, shift = (_negative_share(op, v, count) for v in (mul(op, alpha, inverse, by_scale), mul(op, alpha, by_bias)))
    dx = _combined(op, dy, centered, *(_spread(op, v, x, channel) for v in (alpha, beta, shift)))
    like = [op.input(index) for index in ((1, 1) if batches == 1 else (5, 6))]
    if batches > 1:
        by_scale, by_bias = (_unless_empty(op, div(op, v, float(batches)), x) for v in (by_scale, by_bias))
    return dx, reshape_like(op, by_scale, like[0]), reshape_like(op, by_bias, like[1])


def _spread(op: Op, v: Value, x: Value, channel: int) -> Value:
    """Return ``v`` [C] as a tensor that broadcasts over the channels of ``x``, which are the dim ``channel``."""
    return unsqueeze(op, v, range(1, op.rank(x) - channel))


def _combined(op: Op, dy: Value, x: Value, alpha: Value, beta: Value, shift: Value) -> Value:
    """Return ``alpha * dY + beta * X + shift``, the common form of these gradients, with factors that broadcast."""
    return add(op, mul(op, dy, alpha), mul(op, x, beta), shift)


def _count(op: Op, x: Value, axes: Sequence[int], batches: int = 1) -> Operand:
    """Return the number of elements of ``x`` along ``axes``, in ``batches`` batches; at least 1."""
    count = product(op, [*(size(op, x, axis) for axis in axes), batches])
    if isinstance(count, int):
        return float(max(count, 1))
    return scalar(op, cast(op, binary(op, "Max", count, 1), op.dtype(x)))


def _negative_share(op: Op, v: Value, count: Operand) -> Value:
    """Return ``-v / count``."""
    return op.emit("Neg", div(op, v, count)) if isinstance(count, Value) else mul(op, v, -1.0 / count)


def _unless_empty(op: Op, v: Value, x: Value) -> Value:
    """Return ``v``, or zeros if the batch ``x`` is empty."""
    count = size(op, x, 0)
    if isinstance(count, int):
        return v if count else mul(op, v, 0.0)
    return op.emit("Where", binary(op, "Greater", count, 0), v, op.const(0.0, v))


@family.converts("LayerNormGradient", expects={0: _FLOAT, 4: _FLOAT})
@takes(REALS, 0, 4)
def layer_norm_gradient(op: Op) -> Value | tuple[Value, Value, Value]:
    """LayerNormGradient(dY, Y, mean, std, X[, scale]; axis=1, elementwise_affine=0) -> dX[, dscale, dbias].

    With xhat the normalized X, ``g = dY * scale``, and means over the dims from ``axis`` on:
    ``dX = (g - mean(g) - xhat * mean(g * xhat)) / std``.
    """
    op.args.ignore("epsilon")
    dy, x = op.input(0), op.input(4)
    require_same_shape(op, (x, dy))
    rank = op.rank(x)
    axis = op.axis(op.args.integer("axis", default=1), rank)
    axes = list(range(axis, rank))
    mean, std = (_per_layer(op, op.input(index), x, axis) for index in (2, 3))
    inverse = op.emit("Reciprocal", std)
    normalized = mul(op, sub(op, x, mean), inverse)
    affine = op.args.flag("elementwise_affine", default=False)
    scale = op.input(5) if affine else None
    gradient = dy if scale is None else mul(op, dy, as_tail(op, scale, x, axis))
    means = (reduce_axes(op, "ReduceMean", v, axes, keep=True) for v in (gradient, mul(op, gradient, normalized)))
    by_mean, by_deviation = means
    dx = mul(op, sub(op, sub(op, gradient, by_mean), mul(op, normalized, by_deviation)), inverse)
    if scale is None:
        return dx
    rows = list(range(axis))
    by_scale, by_bias = (reduce_axes(op, "ReduceSum", v, rows) for v in (mul(op, dy, normalized), dy))
    return dx, reshape_like(op, by_scale, scale), reshape_like(op, by_bias, scale)


def _per_layer(op: Op, v: Value, x: Value, axis: int) -> Value:
    """Return ``v``, of one element for each layer of ``x``, with dims of 1 in the place of those from ``axis`` on."""
    ones = op.rank(x) - axis
    dims = op.shape(v)
    if op.rank(v) == axis + 1 and dims[axis] == 1:
        return unsqueeze(op, v, range(axis + 1, op.rank(x)))
    if op.rank(v) == axis:
        return unsqueeze(op, v, range(axis, op.rank(x)))
    return reshape(op, v, [*sizes(op, x, 0, axis), *[1] * ones])


@family.converts("RMSNormGradient", expects={0: _FLOAT, 1: _FLOAT})
@takes(REALS, 0, 1, 2, 3)
def rms_norm_gradient(op: Op) -> tuple[Value, Value, Value]:
    """RMSNormGradient(dY, X, scale, rrms; axis=1) -> dX, dscale, dbias.

    With ``g = dY * scale``, and the mean over the dims from ``axis`` on:
    ``dX = rrms * (g - X * rrms^2 * mean(g * X))``.
    """
    op.args.ignore("eps")
    dy, x, scale = op.input(0), op.input(1), op.input(2)
    require_same_shape(op, (x, dy))
    rank = op.rank(x)
    axis = op.axis(op.args.integer("axis", default=1), rank)
    inverse = _per_layer(op, op.input(3), x, axis)
    normalized = mul(op, x, inverse)
    gradient = mul(op, dy, as_tail(op, scale, x, axis))
    mean = reduce_axes(op, "ReduceMean", mul(op, gradient, normalized), list(range(axis, rank)), keep=True)
    dx = mul(op, sub(op, gradient, mul(op, normalized, mean)), inverse)
    rows = list(range(axis))
    by_scale, by_bias = (reduce_axes(op, "ReduceSum", v, rows) for v in (mul(op, dy, normalized), dy))
    return dx, reshape_like(op, by_scale, scale), reshape_like(op, by_bias, scale)


@family.converts("GroupNormGradient", expects={0: _FLOAT, 1: _FLOAT, 2: _VECTOR, 3: _VECTOR})
@takes(REALS, 0, 1)
def group_norm_gradient(op: Op) -> tuple[Value, Value, Value]:
    """GroupNormGradient(dY, X, scale, bias, mean, inv_std; group=32, order="NCHW") -> dX, dscale, dbias.

    The moments are [N, group]; with one group for each channel these are the gradients of InstanceNorm.
    """
    op.args.ignore("epsilon", "is_test")
    dy, x = op.input(0), op.input(1)
    group = op.args.integer("group", default=32)
    channel = op.rank(x) - 1 if channels_last(op) else 1
    channels = op.static_dim(op.input(2), 0) if op.static_dim(x, channel) is None else op.static_dim(x, channel)
    require_groups(op, channels, group, "channels")
    per_channel(op, x, 2, channel)
    return _of_groups(op, x, dy, (op.input(2), op.input(3)), op.input(4), op.input(5), group)


@family.converts("InstanceNormGradient", expects={0: _FLOAT, 1: _VECTOR, 2: _VECTOR, 3: _FLOAT})
@takes(REALS, 0, 3)
def instance_norm_gradient(op: Op) -> tuple[Value, Value, Value]:
    """InstanceNormGradient(X, scale, bias, dY[, mean, inv_std]; epsilon=1e-5, order="NCHW") -> dX, dscale, dbias.

    The moments are [N, C]; they are computed if they are not given.
    """
    epsilon = op.args.number("epsilon", default=1e-5)
    if epsilon < 0:
        op.unsupported("epsilon must not be negative", code="invalid-argument")
    x, dy = op.input(0), op.input(3)
    channel = op.rank(x) - 1 if channels_last(op) else 1
    if op.has_input(5):
        mean, inverse = op.input(4), op.input(5)
    else:
        mean, variance = moments(op, x, [axis for axis in range(1, op.rank(x)) if axis != channel], keepdims=False)
        inverse = inverse_deviation(op, variance, epsilon)
    per_channel(op, x, 1, channel)
    return _of_groups(op, x, dy, (op.input(1), op.input(1)), mean, inverse, None)


def _of_groups(
    op: Op, x: Value, dy: Value, affine: tuple[Value, Value], mean: Value, inverse: Value, group: int | None
) -> tuple[Value, Value, Value]:
    """Return the gradients of X, scale and bias for moments [N, groups]; by default each channel is a group.

    ``affine`` are the scale, and what has the shape of the gradient of the bias.

    X is laid out as [N, groups, channels of a group, pixels], or with the channels last as [N, pixels, groups,
    channels of a group]. Sums over the pixels come first: what remains to be combined is small.
    """
    require_same_shape(op, (x, dy))
    scale, bias = affine
    last = channels_last(op)
    n, *rest = sizes(op, x)
    channels, pixels = (rest[-1], rest[:-1]) if last else (rest[0], rest[1:])
    groups, inside = (channels, 1) if group is None else (group, quotient(op, channels, group))
    area = product(op, pixels)
    pixel, of_group = (1, 3) if last else (3, 2)
    dims = [n, area, groups, inside] if last else [n, groups, inside, area]
    values, gradient = (reshape(op, v, dims) for v in (x, dy))
    moment_dims = [n, 1, groups, 1] if last else [n, groups, 1, 1]
    mean, inverse = (reshape(op, v, moment_dims) for v in (mean, inverse))
    weights = reshape(op, scale, [groups, inside] if last else [groups, inside, 1])
    centered = sub(op, values, mean)
    # [N, groups, channels of a group], with a dim of 1 for the pixels.
    products, sums = (
        reduce_axes(op, "ReduceSum", v, [pixel], keep=True) for v in (mul(op, gradient, centered), gradient)
    )
    count = _count(op, values, [pixel, of_group])
    by_deviation, by_mean = (
        _negative_share(op, reduce_axes(op, "ReduceSum", mul(op, v, weights), [of_group], keep=True), count)
        for v in (products, sums)
    )
    beta = mul(op, by_deviation, inverse, inverse, inverse)
    dx = _combined(op, gradient, centered, mul(op, inverse, weights), beta, mul(op, by_mean, inverse))
    by_scale, by_bias = (reduce_axes(op, "ReduceSum", v, [0]) for v in (mul(op, products, inverse), sums))
    return reshape_like(op, dx, x), reshape_like(op, by_scale, scale), reshape_like(op, by_bias, bias)


@family.converts("LRNGradient", expects={index: TensorInfo(ir.DataType.FLOAT, (None,) * 4) for index in range(3)})
@takes(SINGLE, 0, 1, 2)
def local_response_gradient(op: Op) -> Value:
    """LRNGradient(X, Y, dY; size, alpha=0.0, beta=0.0, bias=1.0, order="NCHW") -> dX.

    With ``scale`` what X is divided by, before it is raised to ``beta``:
    ``dY / scale^beta - 2 alpha beta X mean(dY * Y / scale)``, with the mean over the channels whose window holds this
    one. With NHWC Caffe2 takes the window of the channel itself, which differs if ``size`` is even.
    """
    x, y, dy = op.input(0), op.input(1), op.input(2)
    require_rank(op, x, 4, "X")
    require_same_shape(op, (x, y, dy))
    last = channels_last(op)
    width = op.args.integer("size", default=0)
    alpha, beta = (op.args.number(name, default=0.0) for name in ("alpha", "beta"))
    bias = op.args.number("bias", default=1.0)
    if width < 1:
        op.unsupported(f"size must be positive, not {width}", code="invalid-argument")
    before = (width - 1) // 2
    scale = add(op, mul(op, mean_over_channels(op, square(op, x), width, before, last=last), alpha), bias)
    shares = div(op, mul(op, dy, y), scale)
    shared = mean_over_channels(op, shares, width, before if last else width - 1 - before, last=last)
    direct = mul(op, dy, op.emit("Pow", scale, op.const(-beta, scale)))
    return sub(op, direct, mul(op, mul(op, x, 2.0 * alpha * beta), shared))

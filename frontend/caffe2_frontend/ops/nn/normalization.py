"""Normalization: by the moments of a batch, an image, a group of channels or a layer; and by neighbouring channels."""

from __future__ import annotations

from math import inf, prod

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import add, binary, blend, div, mul, reshape_like, square, sub
from caffe2_frontend.emit.layers.affine import as_tail, per_channel
from caffe2_frontend.emit.layers.moments import inverse_deviation, moments
from caffe2_frontend.emit.layers.neighbours import mean_over_channels
from caffe2_frontend.emit.layout import channels_last, move_first, move_last
from caffe2_frontend.emit.operand_checks import require_groups
from caffe2_frontend.emit.reductions import reduce_axes
from caffe2_frontend.emit.shapes import (
    broadcast_over_channels,
    cast,
    product,
    quotient,
    reshape,
    size,
    size_vector,
    sizes,
    squeeze,
)
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("normalization")


def _operand(_: OpView, index: int) -> TensorInfo:
    """Describe X as float of any rank, and the operands per channel or column as float vectors."""
    return TensorInfo(ir.DataType.FLOAT, (None,) if index else None)


@family.converts("SpatialBN", expects=_operand, uniform=True)
def spatial_bn(op: Op) -> Value | tuple[Value, ...]:
    """SpatialBN(X, scale, bias, mean, var[, sums, sumsq]; is_test=0, epsilon=1e-5, momentum=0.9, ...) -> Y[, ...].

    In training X is normalized by the moments of the batch, and four more outputs are running_mean, running_var,
    saved_mean and saved_inv_std. The running moments become ``momentum * old + (1 - momentum) * new``, with the
    unbiased variance of the batch as the new one; normalization and the saved moments use the biased one. With
    ``num_batches`` (1) the operands sums and sumsq hold the sums of values and squares over that many batches of this
    size. ``order`` is "NCHW" by default.
    """
    x = op.input(0)
    last = channels_last(op)
    if op.rank(x) < 2:
        op.unsupported(f"X must have at least rank 2 (batch and channels), not {op.rank(x)}", code="invalid-operands")
    x = move_first(op, x, when=last)
    scale, bias, mean, var = (per_channel(op, x, i) for i in range(1, 5))
    epsilon = op.args.number("epsilon", default=1e-5)
    momentum = op.args.number("momentum", default=0.9)
    batches = op.args.integer("num_batches", default=1)
    test = op.args.flag("is_test", default=False)
    if epsilon <= 0 or not 0 <= momentum <= 1:
        op.unsupported(
            f"epsilon must be positive ({epsilon}) and momentum between 0 and 1 ({momentum})", code="invalid-argument"
        )
    if op.output_count != (1 if test else 5):
        op.unsupported(
            f"SpatialBN must have one output with is_test=1 and five with is_test=0, not {op.output_count}",
            hint="set is_test=1 to export for inference",
            code="invalid-operands",
        )
    if test:
        y = op.emit("BatchNormalization", x, scale, bias, mean, var, epsilon=epsilon)
        return move_last(op, y, when=last)
    count = _count(op, x, scale, batches)
    batch_mean, batch_var = _batch_moments(op, x, batches, count)
    rstd = inverse_deviation(op, batch_var, epsilon)
    y = _affine(op, sub(op, x, broadcast_over_channels(op, batch_mean, x)), mul(op, scale, rstd), bias)
    unbiased = mul(op, batch_var, _unbiased_share(op, count))
    results = [blend(op, mean, batch_mean, momentum), blend(op, var, unbiased, momentum), batch_mean, rstd]
    if not op.static_dim(x, 0):
        # A batch without images leaves the running moments unchanged, and saves zeros.
        zero = op.const(0.0, x)
        nonempty = binary(op, "Greater", size_vector(op, x, 0), 0)
        kept = (mean, var, zero, zero)
        results = [op.emit("Where", nonempty, new, old) for new, old in zip(results, kept, strict=True)]
    return (move_last(op, y, when=last), *results)


@family.converts("InstanceNorm", expects=_operand, uniform=True)
def instance_norm(op: Op) -> Value | tuple[Value, ...]:
    """InstanceNorm(X, scale, bias; epsilon=1e-5, order="NCHW") -> Y[, mean, inv_std].

    The moments are [N, C].
    """
    x = op.input(0)
    last = channels_last(op)
    x = move_first(op, x, when=last)
    epsilon = op.args.number("epsilon", default=1e-5)
    if epsilon < 0:
        op.unsupported("epsilon must not be negative", code="invalid-argument")
    scale, bias = (per_channel(op, x, i) for i in (1, 2))
    y = op.emit("InstanceNormalization", x, scale, bias, epsilon=epsilon)
    y = move_last(op, y, when=last)
    return y if op.output_count == 1 else (y, *_saved(op, x, range(2, op.rank(x)), epsilon))


@family.converts("GroupNorm", expects=_operand)
def group_norm(op: Op) -> Value | tuple[Value, ...]:
    """GroupNorm(X, scale, bias; group=32, epsilon=1e-5, order="NCHW", is_test) -> Y[, mean, inv_std].

    Scale and bias have one element per channel, not per group. The moments are [N, group].
    """
    op.args.ignore("is_test")
    x = op.input(0)
    last = channels_last(op)
    x = move_first(op, x, when=last)
    group = op.args.integer("group", default=32)
    epsilon = op.args.number("epsilon", default=1e-5)
    channels = op.static_dim(op.input(1), 0) if op.static_dim(x, 1) is None else op.static_dim(x, 1)
    require_groups(op, channels, group, "channels")
    n, inside = size(op, x, 0), quotient(op, product(op, sizes(op, x, 1)), group)
    # A group is an instance of one channel: normalize [N, G, C / G * ...], then scale and shift the channels.
    groups = reshape(op, x, [n, group, inside])
    ones, zeros = (op.const(np.full(op.bounded(group), v), x) for v in (1.0, 0.0))
    y = op.emit("InstanceNormalization", groups, ones, zeros, epsilon=epsilon)
    y = reshape_like(op, y, x)
    y = move_last(op, _affine(op, y, *(per_channel(op, x, i) for i in (1, 2))), when=last)
    return y if op.output_count == 1 else (y, *_saved(op, groups, [2], epsilon))


@family.converts("LayerNorm", "C10LayerNorm_DontUseThisOpYet", expects=_operand)
def layer_norm(op: Op) -> tuple[Value, Value, Value]:
    """LayerNorm(X[, scale, bias]; axis=1, epsilon=1e-5, elementwise_affine=0) -> Y, mean, std.

    C10LayerNorm_DontUseThisOpYet is the same. The moments are [*dims before axis, 1], the second being the standard
    deviation, where ONNX's is its inverse.
    """
    x = op.input(0)
    rank = op.rank(x)
    axis = op.axis(op.args.integer("axis", default=1), rank)
    epsilon = op.args.number("epsilon", default=1e-5)
    affine = op.args.flag("elementwise_affine", default=False)
    if rank < 2:
        op.unsupported(f"X must have at least rank 2, not {rank}", code="invalid-operands")
    if not np.isfinite(epsilon):
        op.unsupported(f"epsilon must be finite, not {epsilon}", code="invalid-argument")
    shared = set(op.view.inputs) & set(op.view.outputs[1:])
    if shared:  # C10LayerNorm_DontUseThisOpYet has no schema, and overwrites the input before it has read it
        op.unsupported(
            f"the moments must not be written over input {min(shared)!r}",
            hint="give the output a name of its own",
            code="in-place",
        )
    scale, bias = (as_tail(op, op.input(i), x, axis) for i in (1, 2)) if affine else (op.const([1.0], x), None)
    if op.dtype(x) == ir.DataType.DOUBLE:
        # onnxruntime has no float64 kernel for LayerNormalization.
        mean, var = moments(op, x, range(axis, rank))
        inverse = inverse_deviation(op, var, epsilon)
        y = mul(op, sub(op, x, mean), inverse, scale)
        y = y if bias is None else add(op, y, bias)
    else:
        y, mean, inverse = op.emit("LayerNormalization", x, scale, bias, axis=axis, epsilon=epsilon, outputs=3)
    extra = range(axis + 1, rank)
    return y, squeeze(op, mean, extra), squeeze(op, op.emit("Reciprocal", inverse), extra)


@family.converts("RMSNorm", expects=_operand)
def rms_norm(op: Op) -> tuple[Value, Value]:
    """RMSNorm(X, gamma, beta; axis=1, eps=0.0) -> Y, rrms.

    The second output, of the dims before ``axis``, is the reciprocal of the root mean square.
    """
    x = op.input(0)
    rank = op.rank(x)
    axis = op.axis(op.args.integer("axis", default=1), rank)
    epsilon = op.args.number("eps", default=0.0)
    gamma, beta = (as_tail(op, op.input(i), x, axis) for i in (1, 2))
    axes = list(range(axis, rank))
    power = op.emit("ReduceMean", square(op, x), op.const(axes, np.int64))
    inverse = inverse_deviation(op, power, epsilon)
    y = add(op, mul(op, x, inverse, gamma), beta)
    return y, squeeze(op, inverse, axes)


@family.converts("LRN", expects={0: TensorInfo(ir.DataType.FLOAT, (None,) * 4)})
def local_response(op: Op) -> Value | tuple[Value, Value]:
    """LRN(X; size, alpha=0.0, beta=0.0, bias=1.0, order="NCHW") -> Y[, scale].

    The second output is what X is divided by, before it is raised to ``beta``.
    """
    x = op.input(0)
    last = channels_last(op)
    width = op.args.integer("size", default=0)
    alpha, beta = (op.args.number(name, default=0.0) for name in ("alpha", "beta"))
    bias = op.args.number("bias", default=1.0)
    if width < 1 or op.rank(x) != 4:
        reason = f"size must be positive ({width}), and X must have rank 4 ({op.rank(x)})"
        op.unsupported(reason, code="invalid-operands")
    x = move_first(op, x, when=last)
    if width % 2 and op.output_count == 1 and alpha > 0 and beta > 0:
        y = op.emit("LRN", x, size=width, alpha=alpha, beta=beta, bias=bias)
        return move_last(op, y, when=last)
    # ONNX's LRN has no second output, and no even size; onnxruntime's requires positive exponents and factors.
    scale = add(op, mul(op, mean_over_channels(op, square(op, x), width, (width - 1) // 2), alpha), bias)
    y = mul(op, x, op.emit("Pow", scale, op.const(-beta, x)))
    return move_last(op, y, when=last), move_last(op, scale, when=last)


@family.converts("AffineChannel", expects=_operand, uniform=True)
def affine_channel(op: Op) -> Value:
    """AffineChannel(X, scale, bias; order="NCHW", is_learnable) -> Y."""
    op.args.ignore("is_learnable")
    x, scale, bias = op.input(0), op.input(1), op.input(2)
    if channels_last(op):
        return add(op, mul(op, x, scale), bias)
    return _affine(op, x, scale, bias)


def _affine(op: Op, x: Value, scale: Value, bias: Value) -> Value:
    """Scale and shift each channel of ``x`` [N, C, ...]."""
    return add(op, mul(op, x, broadcast_over_channels(op, scale, x)), broadcast_over_channels(op, bias, x))


def _count(op: Op, x: Value, scale: Value, batches: int) -> Value | float:
    """Return the number of elements of a channel in ``batches`` batches, a float."""
    dims = [op.static_dim(x, axis) for axis in (0, *range(2, op.rank(x)))]
    known = [dim for dim in dims if dim is not None]
    if len(known) == len(dims):
        return float(prod(known) * batches)
    elements, channels = (cast(op, op.emit("Size", v), ir.DataType.FLOAT) for v in (x, scale))
    return div(op, mul(op, elements, float(batches)), channels)


def _unbiased_share(op: Op, count: Value | float) -> Value | float:
    """Return ``count / (count - 1)``; infinity for 1, where the variance is 0."""
    if isinstance(count, float):
        return count / (count - 1) if count != 1 else inf
    return div(op, count, sub(op, count, 1.0))


def _batch_moments(op: Op, x: Value, batches: int, count: Value | float) -> tuple[Value, Value]:
    """Return mean and variance [C] of the batch, or of the sums over ``batches`` batches of ``count`` elements."""
    if batches <= 1:
        axes = [0, *range(2, op.rank(x))]
        mean = reduce_axes(op, "ReduceMean", x, axes)
        centered = sub(op, x, broadcast_over_channels(op, mean, x))  # as it is normalized, and in the gradient
        return mean, reduce_axes(op, "ReduceMean", square(op, centered), axes)
    mean, power = (div(op, op.input(i), count) for i in (5, 6))
    return mean, sub(op, power, square(op, mean))


def _saved(op: Op, x: Value, axes: range | list[int], epsilon: float) -> tuple[Value, Value]:
    """Return mean and inverse standard deviation along ``axes``."""
    mean, var = moments(op, x, axes, keepdims=False)
    return mean, inverse_deviation(op, var, epsilon)

"""Moments, sums and norms of tensors, and scaling by norms."""

from __future__ import annotations

import numpy as np

from caffe2_frontend.emit.arithmetic import mul, square, sub
from caffe2_frontend.emit.layers.moments import moments
from caffe2_frontend.emit.layout import channels_last
from caffe2_frontend.emit.operand_checks import SINGLE, require_dtype, require_min_rank
from caffe2_frontend.emit.reductions import reduce_axes
from caffe2_frontend.emit.shapes import broadcast_over_channels, unsqueeze
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("statistics")

# Norms count as this at least, before they divide.
_MIN_NORM = 1e-12


def _but_channels(op: Op, x: Value) -> list[int]:
    """Return the axes of ``x`` except the channel axis: none of a vector whose elements are the channels."""
    rank = op.rank(x)
    channel = rank - 1 if channels_last(op) else 1
    return [axis for axis in range(rank) if axis != channel]


@family.converts("BatchMoments", "ChannelStats")
def channel_moments(op: Op) -> tuple[Value, Value]:
    """BatchMoments(X; order="NCHW") -> mean, mean of squares.

    ChannelStats(X; order="NCHW") -> sum, sum of squares. Both are per channel; the second output is not centred.
    """
    x = op.input(0)
    if op.type == "BatchMoments":  # of a vector, Caffe2 divides by 0 rows
        require_min_rank(op, x, 2, "the input")
    axes = _but_channels(op, x)
    reduce = "ReduceMean" if op.type == "BatchMoments" else "ReduceSum"
    return reduce_axes(op, reduce, x, axes), reduce_axes(op, reduce, square(op, x), axes)


@family.converts("ChannelBackpropStats")
def channel_backprop_stats(op: Op) -> tuple[Value, Value]:
    """ChannelBackpropStats(X, mean, inv_std, dY) -> dscale, dbias.

    The gradients of the scale and the bias of a SpatialBN.
    """
    x, mean, rstd, dy = op.inputs
    axes = _but_channels(op, x)
    mean, rstd = (broadcast_over_channels(op, v, x) for v in (mean, rstd))
    normal = mul(op, sub(op, x, mean), rstd)
    return reduce_axes(op, "ReduceSum", mul(op, normal, dy), axes), reduce_axes(op, "ReduceSum", dy, axes)


@family.converts("Moments")
def mean_and_variance(op: Op) -> tuple[Value, Value]:
    """Moments(X; axes=[], keepdims=1) -> mean, variance."""
    x = op.input(0)
    rank = op.rank(x)
    axes = sorted(op.args.integers("axes", default=())) or list(range(rank))
    if any(not 0 <= axis < rank for axis in axes):
        op.unsupported(f"axes {axes} are out of range for rank {rank}", code="invalid-argument")
    return moments(op, x, axes, keepdims=op.args.flag("keepdims", default=True))


@family.converts("LpNorm")
def lp_norm(op: Op) -> Value:
    """LpNorm(X; p=2, average=0) -> Y [1]: the sum, or mean, of absolute values or squares, without a root."""
    x = op.input(0)
    p = op.args.integer("p", default=2)
    if p not in (1, 2):
        op.unsupported(f"p must be 1 or 2, not {p}", code="invalid-argument")
    powers = op.emit("Abs", x) if p == 1 else square(op, x)
    average = op.args.flag("average", default=False)
    total = op.emit("ReduceMean" if average else "ReduceSum", powers, keepdims=0)
    return unsqueeze(op, total, [0])


@family.converts("Normalize")
def normalize(op: Op) -> Value:
    """Normalize(X; axis=-1) -> Y: division by the 2-norm, which counts as 1e-12 at least."""
    x, axis = _vectors(op)
    norm = op.emit("ReduceL2", x, op.const([axis], np.int64))
    return op.emit("Div", x, op.emit("Max", norm, op.const(_MIN_NORM, x)))


@family.converts("NormalizeL1")
def normalize_l1(op: Op) -> Value:
    """NormalizeL1(X; axis=-1) -> Y."""
    x, axis = _vectors(op)
    return op.emit("LpNormalization", x, p=1, axis=axis)


def _vectors(op: Op) -> tuple[Value, int]:
    """Return the input, and the axis of its vectors."""
    x = op.input(0)
    require_dtype(op, x, SINGLE, "the input")
    return x, op.axis(op.args.integer("axis", default=-1), op.rank(x))

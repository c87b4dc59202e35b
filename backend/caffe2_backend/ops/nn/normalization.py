"""Normalization of images."""

from __future__ import annotations

from caffe2_backend.emit.shapes import dims_of, reshape
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import FLOAT

family = Family("normalization")


@family.converts("BatchNormalization")
def batch_normalization(op: Op) -> Value | tuple[Value, Value, Value]:
    """``BatchNormalization(X, scale, B, mean, var; epsilon=1e-5, momentum=0.9, training_mode=0) -> Y``: SpatialBN.

    Arithmetic where epsilon is 0, or X a list; in training that with ReduceMean, -> Y, running_mean, running_var.
    """
    op.args.ignore("spatial")
    x, epsilon = op.require(op.input(0), FLOAT), op.args.number("epsilon", default=1e-5)
    momentum = op.args.number("momentum", default=0.9)
    if op.args.flag("training_mode", default=False):
        return _in_training(op, x, epsilon, momentum)
    parameters = [op.input(i) for i in range(1, 5)]
    if epsilon <= 0 or op.rank(x) < 2:  # which SpatialBN refuses
        scale, bias, mean, variance = (each.reshape([-1, *[1] * (op.rank(x) - 2)]) for each in parameters)
        return (x - mean) / op.emit("Sqrt", variance + epsilon) * scale + bias
    is_flat = op.rank(x) == 2
    if is_flat:
        x = op.emit("ExpandDims", x, dims=[2])
    y = op.emit("SpatialBN", x, *parameters, is_test=1, epsilon=epsilon, order="NCHW")
    return op.emit("Squeeze", y, dims=[2]) if is_flat else y


def _normalized(op: Op, x: Value, axes: list[int], epsilon: float) -> tuple[Value, Value, Value]:
    """Return (x - mean) / sqrt(variance + epsilon) over axes, the mean and the variance, whose axes are kept."""
    mean = op.emit("ReduceMean", x, axes=axes, keepdims=1)
    centered = x - mean
    variance = op.emit("ReduceMean", op.emit("Sqr", centered), axes=axes, keepdims=1)
    return centered / op.emit("Sqrt", variance + epsilon), mean, variance


def _in_training(op: Op, x: Value, epsilon: float, momentum: float) -> tuple[Value, Value, Value]:
    """Normalize with the batch's mean and variance, and move the running ones toward them."""
    axes = [i for i in range(op.rank(x)) if i != 1]
    normal, mean, variance = _normalized(op, x, axes, epsilon)
    scale, bias = (op.input(i).reshape([-1, *[1] * (op.rank(x) - 2)]) for i in (1, 2))

    def running(index: int, own: Value) -> Value:
        return op.input(index) * momentum + own.reshape([-1]) * (1 - momentum)

    return normal * scale + bias, running(3, mean), running(4, variance)


@family.converts("InstanceNormalization")
def instance_normalization(op: Op) -> Value:
    """``InstanceNormalization(X, scale, B; epsilon=1e-5) -> Y``: InstanceNorm."""
    op.require(op.input(0), FLOAT)
    return op.emit("InstanceNorm", *op.inputs, epsilon=op.args.number("epsilon", default=1e-5), order="NCHW")


@family.converts("LRN")
def local_response_normalization(op: Op) -> Value:
    """``LRN(X; size, alpha=0.0001, beta=0.75, bias=1) -> Y``: LRN, of an odd number of channels."""
    size = op.args.integer("size", default=1)
    if size % 2 == 0:
        op.unsupported("LRN must have an odd size in Caffe2")
    alpha, beta = op.args.number("alpha", default=0.0001), op.args.number("beta", default=0.75)
    bias = op.args.number("bias", default=1.0)
    return op.emit("LRN", op.require(op.input(0), FLOAT), size=size, alpha=alpha, beta=beta, bias=bias, order="NCHW")


@family.converts("GroupNormalization")
def group_normalization(op: Op) -> Value:
    """``GroupNormalization(X, scale, bias; num_groups, epsilon=1e-5) -> Y``: arithmetic with ReduceMean.

    Before opset 21 there is one scale and bias for each group, since then one for each channel.
    """
    groups, epsilon = op.args.integer("num_groups", default=1), op.args.number("epsilon", default=1e-5)
    op.args.ignore("stash_type")
    x = op.require(op.input(0), FLOAT)
    count, dims = op.static_dim(op.input(1), 0), dims_of(op, x)
    if count is None:
        op.needs_shape("the number of scales is unknown")
    normal, _, _ = _normalized(op, x.reshape([0, groups, -1]), [2], epsilon)
    if count == groups:
        scale, bias = (op.input(i).reshape([-1, 1]) for i in (1, 2))
        return reshape(op, normal * scale + bias, dims)
    scale, bias = (op.input(i).reshape([-1, *[1] * (len(dims) - 2)]) for i in (1, 2))
    return reshape(op, normal, dims) * scale + bias

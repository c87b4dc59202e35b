"""Normalisation of images."""

from __future__ import annotations

from caffe2_backend.emit.shapes import scalar
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import FLOAT, Op

family = Family("normalization")


@family.converts("BatchNormalization")
def batch_normalization(op: Op) -> str | tuple[str, str, str]:
    op.ignore("spatial")
    op.require(0, FLOAT)
    epsilon, blob, momentum = op.number("epsilon", 1e-5), op.input(0), op.number("momentum", 0.9)
    if op.integer("training_mode", 0):
        return _in_training(op, epsilon, momentum)
    flat = op.rank() == 2
    if flat:
        blob = op.emit("ExpandDims", blob, dims=[2])
    parameters = [op.input(i) for i in range(1, 5)]
    made = op.emit("SpatialBN", blob, *parameters, is_test=1, epsilon=epsilon, order="NCHW")
    return op.emit("Squeeze", made, dims=[2]) if flat else made


def _in_training(op: Op, epsilon: float, momentum: float) -> tuple[str, str, str]:
    """By the batch's own mean and variance; the running ones move towards these."""
    axes = [i for i in range(op.rank()) if i != 1]
    behind = [1] * (op.rank() - 2)
    mean = op.emit("ReduceMean", op.input(0), axes=axes, keepdims=1)
    centred = op.emit("Sub", op.input(0), mean)
    variance = op.emit("ReduceMean", op.emit("Sqr", centred), axes=axes, keepdims=1)
    normal = op.emit("Div", centred, op.emit("Sqrt", op.emit("Add", variance, scalar(op, epsilon, FLOAT))))
    scale, bias = (op.reshape(op.input(i), [-1, *behind]) for i in (1, 2))

    def running(index: int, own: str) -> str:
        old = op.emit("Mul", op.input(index), scalar(op, momentum, FLOAT))
        return op.emit("Add", old, op.emit("Mul", op.reshape(own, [-1]), scalar(op, 1 - momentum, FLOAT)))

    return op.emit("Add", op.emit("Mul", normal, scale), bias), running(3, mean), running(4, variance)


@family.converts("InstanceNormalization")
def instance_normalization(op: Op) -> str:
    op.require(0, FLOAT)
    return op.emit("InstanceNorm", *op.inputs, epsilon=op.number("epsilon", 1e-5), order="NCHW")


@family.converts("LRN")
def local_response(op: Op) -> str:
    size = op.integer("size", 1)
    if size % 2 == 0:
        op.unsupported("Caffe2 has local normalisation of an odd number of channels")
    op.require(0, FLOAT)
    alpha, beta, bias = op.number("alpha", 0.0001), op.number("beta", 0.75), op.number("bias", 1.0)
    return op.emit("LRN", op.input(0), size=size, alpha=alpha, beta=beta, bias=bias, order="NCHW")


@family.converts("GroupNormalization")
def group_normalization(op: Op) -> str:
    groups, epsilon = op.integer("num_groups", 1), op.number("epsilon", 1e-5)
    op.ignore("stash_type")
    op.require(0, FLOAT)
    dims = op.dims()
    if dims is None:
        op.unsupported("an image of unknown size", code="needs-shape")
    parted = op.reshape(op.input(0), [dims[0], groups, -1])
    centred = op.emit("Sub", parted, op.emit("ReduceMean", parted, axes=[2], keepdims=1))
    variance = op.emit("ReduceMean", op.emit("Sqr", centred), axes=[2], keepdims=1)
    normal = op.emit("Div", centred, op.emit("Sqrt", op.emit("Add", variance, scalar(op, epsilon, FLOAT))))
    scale, bias = (op.reshape(op.input(i), [-1, *[1] * (len(dims) - 2)]) for i in (1, 2))
    return op.emit("Add", op.emit("Mul", op.reshape(normal, list(dims)), scale), bias)

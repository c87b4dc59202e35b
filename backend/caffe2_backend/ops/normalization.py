"""Normalisation of images, and their sizes."""

from __future__ import annotations

from caffe2_backend.family import Family
from caffe2_backend.op import FLOAT, Op
from caffe2_backend.shapes import cut, scalar

family = Family("normalization")


@family.converts("BatchNormalization")
def batch_normalization(op: Op) -> tuple[str, ...]:
    """In training by the mean and the variance of what is given, which are mixed into those that are kept."""
    momentum = op.number("momentum", 0.9)
    op.ignore("spatial")
    op.require(0, FLOAT)
    scale, bias, *kept = (op.input(i) for i in range(1, 5))
    if not op.integer("training_mode", 0):
        return (_by(op, [scale, bias, *kept]),)
    rank, axes = op.rank(), [i for i in range(op.rank()) if i != 1]
    mean = op.emit("ReduceMean", op.input(0), axes=axes, keepdims=0)
    centred = op.emit("Sub", op.input(0), op.reshape(mean, [-1, *[1] * (rank - 2)]))
    own = [mean, op.emit("ReduceMean", op.emit("Sqr", centred), axes=axes, keepdims=0)]
    old, new = scalar(op, momentum, FLOAT), scalar(op, 1 - momentum, FLOAT)
    mixed = (
        op.emit("Add", op.emit("Mul", was, old), op.emit("Mul", now, new)) for was, now in zip(kept, own, strict=True)
    )
    return _by(op, [scale, bias, *own]), *mixed


def _by(op: Op, parameters: list[str]) -> str:
    epsilon, blob = op.number("epsilon", 1e-5), op.input(0)
    flat = op.rank() == 2
    if flat:
        blob = op.emit("ExpandDims", blob, dims=[2])
    made = op.emit("SpatialBN", blob, *parameters, is_test=1, epsilon=epsilon, order="NCHW")
    return op.emit("Squeeze", made, dims=[2]) if flat else made


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


@family.converts("Upsample", "Resize")
def resize(op: Op) -> str:
    """The nearest of what lies below: Caffe2's rule, for images of two dims; the scales may come at run time."""
    nearest = op.text("mode", "nearest") == "nearest"
    place = op.text("coordinate_transformation_mode", "half_pixel" if op.type == "Resize" else "asymmetric")
    rounding = op.text("nearest_mode", "round_prefer_floor" if op.type == "Resize" else "floor")
    op.ignore("cubic_coeff_a", "exclude_outside", "extrapolation_value", "antialias")
    op.require(0, FLOAT)
    index = 2 if op.type == "Resize" else 1
    if op.type == "Resize" and (op.has_input(3) or op.has("axes") or not op.has_input(2)):
        op.unsupported("sizes in place of scales, or scales of some axes")
    if not nearest or place != "asymmetric" or rounding != "floor" or op.rank() != 4:
        op.unsupported("Caffe2 resizes images of two dims to the nearest below, and no other way")
    known = op.known(index)
    if known is None:
        after = op.node.outputs[0].shape
        if after is None or list(after)[:2] != list(op.shape())[:2] or len(after) != 4:
            op.unsupported("scales that are computed at run time may be of the batch and the channels")
        return op.emit("ResizeNearest", op.input(0), cut(op, op.input(index), 0, 2, 4))
    if known[0] != 1 or known[1] != 1:
        op.unsupported("the batch and the channels cannot be resized")
    return op.emit("ResizeNearest", op.input(0), height_scale=float(known[2]), width_scale=float(known[3]))

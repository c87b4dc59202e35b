"""What losses of classifications and their gradients read and compute alike."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import binary
from caffe2_frontend.emit.shapes import cast, reshape, size, size_vector, sizes
from caffe2_frontend.lowering.op import Op, Value

# Probabilities count as this at least, before their logarithm is taken or something is divided by them.
MIN_PROBABILITY: Final = 1e-20
_IGNORED_LABEL: Final = -1


def loss_scale(op: Op) -> float:
    """Return the argument ``scale``, which must not be negative."""
    scale = op.args.number("scale", default=1.0)
    if not scale >= 0:  # nor a NaN
        op.unsupported(f"scale must be at least 0, not {scale}", code="invalid-argument")
    return scale


def pixel_weights(op: Op, weights: Value, x: Value) -> Value:
    """Return weights, one for each pixel of the images ``x`` [N, C, H, W], as [N, H, W]."""
    return weights if op.rank(weights) == 3 else reshape(op, weights, [size(op, x, 0), *sizes(op, x, 2)])


def pixel_classes(op: Op, labels: Value) -> tuple[Value, Value]:
    """Return the classes of labelled pixels, 0 where the label is -1, and the mask of the pixels that count."""
    return binary(op, "Max", labels, 0), op.emit("Not", binary(op, "Equal", labels, _IGNORED_LABEL))


def one_hot(op: Op, labels: Value, like: Value, axis: int) -> Value:
    """Return labels as 1 at their class's index along ``axis``, in the element type of ``like`` [N, classes, ...]."""
    # onnxruntime 1.32: no kernel for int32 indices.
    labels = cast(op, labels, ir.DataType.INT64)
    return op.emit("OneHot", labels, size_vector(op, like, 1), op.const(np.array([0, 1]), op.dtype(like)), axis=axis)

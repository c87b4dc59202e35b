"""BBoxTransform: boxes moved and scaled by predicted deltas, class by class."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, div, mul
from caffe2_frontend.emit.shapes import cast, indices, size, slice_axis, squeeze, unsqueeze
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.detection.boxes import box_arguments, by_class, clipped, columns, joined, transformed

family = Family("box_transform")

_MATRIX = TensorInfo(ir.DataType.FLOAT, (None, None))


@family.converts("BBoxTransform", expects=dict.fromkeys(range(3), _MATRIX))
def bbox_transform(op: Op) -> tuple[Value, Value]:
    """The image of a box is its first column where there is one more than a box has; boxes are in the images' order."""
    op.args.ignore("correct_transform_coords")
    weights = op.args.numbers("weights", default=(1.0,) * 4)
    if len(weights) != 4:
        op.unsupported(f"weights has to be 4 numbers, not {len(weights)}", code="invalid-argument")
    how = box_arguments(op, rotated=op.args.flag("rotated", default=False))
    apply_scale = op.args.flag("apply_scale", default=True)
    rois, deltas, info = op.input(0), op.input(1), op.input(2)
    images, counts = _images(op, rois, info, how.dims)
    height, width, scale = columns(op, op.emit("Gather", info, images, axis=0), 3)
    # One box and one image for all classes: [N, 1, 1] beside deltas of [N, classes, 1].
    height, width, scale = (unsqueeze(op, v, [1]) for v in (height, width, scale))
    height, width = (op.emit("Floor", add(op, div(op, v, scale), 0.5)) for v in (height, width))
    parts = [unsqueeze(op, v, [1]) for v in columns(op, rois, how.dims)]
    parts = [div(op, v, scale) if i < 4 else v for i, v in enumerate(parts)]
    moved = transformed(op, parts, columns(op, by_class(op, deltas, how.dims), how.dims), weights, how)
    inside = clipped(op, moved, height, width, how)
    if apply_scale:
        inside = [mul(op, v, scale) if i < 4 else v for i, v in enumerate(inside)]
    result = op.emit("Reshape", joined(op, inside), op.emit("Shape", deltas), allowzero=1, shape=op.shape(deltas))
    return result, counts


def _images(op: Op, rois: Value, info: Value, dims: int) -> tuple[Value, Value]:
    """The image of each row, and how many rows each image has, as float.

    Caffe2 counts the rows of an image and takes so many: the first rows belong to the first image, whatever they say.
    """
    first = squeeze(op, slice_axis(op, rois, 1, 0, 1), [1])
    extra = op.emit("Sub", op.emit("Shape", rois, start=1, end=2), op.const([dims], np.int64))
    numbers = op.emit("Mul", cast(op, first, ir.DataType.INT64), extra)
    in_order, _ = op.emit("TopK", numbers, op.emit("Shape", numbers), axis=0, largest=0, sorted=1, outputs=2)
    each = unsqueeze(op, indices(op, size(op, info, 0)), [1])
    of_image = cast(op, op.emit("Equal", each, numbers), ir.DataType.FLOAT)
    return in_order, op.emit("ReduceSum", of_image, op.const([1], np.int64), keepdims=0)

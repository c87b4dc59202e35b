"""BBoxTransform: boxes transformed by predicted deltas, by class, and clipped to their images."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, div, mul, reshape_like
from caffe2_frontend.emit.shapes import cast, indices, size, slice_axis, squeeze, unsqueeze
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.detection.boxes import box_arguments, by_class, clipped, columns, joined, transformed

family = Family("box_transform")

_MATRIX = TensorInfo(ir.DataType.FLOAT, (None, None))


@family.converts("BBoxTransform", expects=dict.fromkeys(range(3), _MATRIX))
def bbox_transform(op: Op) -> tuple[Value, Value]:
    """BBoxTransform(rois, deltas, im_info; weights=[1, 1, 1, 1], apply_scale=1, rotated=0, ...) -> boxes, batch_splits.

    Rois are [R, 4] (5 if rotated), with the index of their image in one more column before them; deltas are
    [R, 4 * classes], im_info (height, width, scale) per image. Boxes are computed in the coordinates of
    the unscaled image, and multiplied by scale with apply_scale. The remaining arguments are those of
    :func:`box_arguments`.
    """
    op.args.ignore("correct_transform_coords")
    weights = op.args.numbers("weights", default=(1.0,) * 4)
    if len(weights) != 4:
        op.unsupported(f"weights must have 4 elements, not {len(weights)}", code="invalid-argument")
    how = box_arguments(op, rotated=op.args.flag("rotated", default=False))
    apply_scale = op.args.flag("apply_scale", default=True)
    rois, deltas, info = op.input(0), op.input(1), op.input(2)
    op.dims.name(op.shape(info)[0], "N")
    op.dims.equate(op.shape(rois)[0], op.shape(deltas)[0])
    images, counts = _images(op, rois, info, how.dims)
    height, width, scale = columns(op, op.emit("Gather", info, images, axis=0), 3)
    # Boxes and images [N, 1, 1] broadcast with the deltas of all classes, [N, classes, 1].
    height, width, scale = (unsqueeze(op, v, [1]) for v in (height, width, scale))
    height, width = (op.emit("Floor", add(op, div(op, v, scale), 0.5)) for v in (height, width))
    parts = [unsqueeze(op, v, [1]) for v in columns(op, rois, how.dims)]
    parts = [div(op, v, scale) if i < 4 else v for i, v in enumerate(parts)]
    moved = transformed(op, parts, columns(op, by_class(op, deltas, how.dims), how.dims), weights, how)
    inside = clipped(op, moved, height, width, how)
    if apply_scale:
        inside = [mul(op, v, scale) if i < 4 else v for i, v in enumerate(inside)]
    return reshape_like(op, joined(op, inside), deltas), counts


def _images(op: Op, rois: Value, info: Value, dims: int) -> tuple[Value, Value]:
    """Return the image of each row, and the number of rows of each image, float.

    Caffe2 counts the rows of each image and then takes the rows in order, whatever image they name; therefore the
    images are sorted.
    """
    first = squeeze(op, slice_axis(op, rois, 1, 0, 1), [1])
    # 1 if the rois have a column for the image, else 0, which makes all images the first.
    extra = op.emit("Sub", op.emit("Shape", rois, start=1, end=2), op.const([dims], np.int64))
    images = op.emit("Mul", cast(op, first, ir.DataType.INT64), extra)
    in_order, _ = op.emit("TopK", images, op.emit("Shape", images), axis=0, largest=0, sorted=1, outputs=2)
    every_image = unsqueeze(op, indices(op, size(op, info, 0)), [1])
    of_image = cast(op, op.emit("Equal", every_image, images), ir.DataType.FLOAT)
    return in_order, op.emit("ReduceSum", of_image, op.const([1], np.int64), keepdims=0)

"""Rules of operators of object detection: images, anchors and boxes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.input_shapes.known_shapes import KnownShapes

# The columns of im_info: height, width and scale of an image.
_INFO_COLUMNS: Final = 3


def _proposals(op: OpView, shapes: KnownShapes) -> None:
    """Scores [N, A, H, W] and deltas [N, A * columns, H, W] of one map, im_info [N, 3], anchors [A, columns]."""
    if len(op.inputs) != 4:
        return
    scores, deltas, info, anchors = op.inputs
    for name, rank in ((scores, 4), (deltas, 4), (info, 2), (anchors, 2)):
        shapes.set_rank(name, rank)
    shapes.set_size(info, 1, _INFO_COLUMNS)
    shapes.relate_sizes((scores, 0), (deltas, 0), (info, 0))
    shapes.relate_sizes((scores, 1), (anchors, 0))
    for axis in (2, 3):
        shapes.relate_sizes((scores, axis), (deltas, axis))
    count, columns = shapes.size(anchors, 0), shapes.size(anchors, 1)
    if count is not None and columns is not None:
        shapes.set_size(deltas, 1, count * columns)


def _transformed_boxes(op: OpView, shapes: KnownShapes) -> None:
    """BBoxTransform: rois and deltas of one number of rows, im_info [N, 3]."""
    if len(op.inputs) != 3:
        return
    rois, deltas, info = op.inputs
    for name in op.inputs:
        shapes.set_rank(name, 2)
    shapes.set_size(info, 1, _INFO_COLUMNS)
    shapes.relate_sizes((rois, 0), (deltas, 0))
    shapes.relate_shapes(deltas, op.outputs[0])


RULES: Final[Mapping[str, Callable[[OpView, KnownShapes], None]]] = {
    **dict.fromkeys(["GenerateProposals", "GenerateProposalsCPP"], _proposals),
    "BBoxTransform": _transformed_boxes,
}

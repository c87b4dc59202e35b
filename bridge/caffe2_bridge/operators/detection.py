"""Signatures of operators on images, anchors and boxes; ``im_info`` is the height, width and scale of images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from caffe2_bridge.operators.signature import Text

SIGNATURES: Final[Mapping[str, Text]] = {
    "GenerateProposals GenerateProposalsCPP":
        "scores[N, A, H, W], deltas[N, A*D, H, W], im_info[N, 3], anchors[A, D] -> rois[R, E], probabilities[R]",
    "BBoxTransform": "rois[R, E], deltas[R, D], im_info[I, 3] -> boxes[R, D]",
    "RoIAlign RoIPool RoIPoolF": "X[N, ^C, H, W], rois[R, E] -> Y[R, ^C, U, V]",
}  # fmt: skip

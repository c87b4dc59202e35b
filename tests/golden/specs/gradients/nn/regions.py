"""Gradients of RoIAlign: samples given and counted, borders, empty regions, several images."""

from typing import Any

import numpy as np
from conformance.recording import Spec, case, generator

Array = np.ndarray[Any, Any]

rng = generator(0)

ROIS = [[0, 0, 0, 3, 3], [0, 1.2, 0.7, 4.5, 2.9], [0, -3, -2, 2, 7], [0, 2, 2, 2, 2], [0, 4.6, 5, 12, 9]]


def floats(*shape: int) -> Array:
    return rng.standard_normal(shape).astype("float32")


def align(x: tuple[int, ...], rois: Any, *, height: int = 2, width: int = 3, **args: Any) -> Spec:
    boxes = np.array(rois, "float32")
    operands = {"X": floats(*x), "R": boxes, "dY": floats(len(boxes), x[1], height, width)}
    return case("RoIAlignGradient", operands, outputs=["dX"], args={"pooled_h": height, "pooled_w": width, **args})


BATCH = [[image, *box] for image, (_, *box) in zip((1, 0, 2, 1, 0), ROIS, strict=True)]
CASES = [
    align((1, 2, 6, 7), ROIS),
    align((1, 2, 6, 7), ROIS, sampling_ratio=2),
    align((3, 2, 6, 7), BATCH, sampling_ratio=3, spatial_scale=0.6),
    align((3, 2, 6, 7), BATCH, aligned=1),
    align((3, 2, 6, 7), BATCH, aligned=1, sampling_ratio=2, spatial_scale=1.4),
    align((1, 3, 6, 7), [box[1:] for box in ROIS], height=4, width=4),
    align((2, 2, 6, 7), np.zeros((0, 5)), aligned=1),
    align((2, 2, 6, 7), np.zeros((0, 5)), sampling_ratio=2),
    align((1, 2, 1, 1), ROIS[:2]),
]

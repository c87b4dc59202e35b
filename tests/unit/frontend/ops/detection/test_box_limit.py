"""BoxWithNMSLimit: upright and rotated boxes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from conformance.corpus import Array
from conformance.recording import generator, operator
from support.exports import export, node_types, run, specs_of


@pytest.mark.parametrize(("rotated", "loops"), [(0, 0), (1, 1)])
def test_upright_boxes_are_suppressed_by_onnx_itself(rotated: int, loops: int) -> None:
    inputs = {"scores": ("float32", ("N", "C")), "boxes": ("float32", ("N", "D"))}
    op = operator("BoxWithNMSLimit", list(inputs), ["s", "b", "c"], rotated=rotated)
    used = Counter(node_types(export(op, inputs).graph))
    assert (used["NonMaxSuppression"], used["Loop"]) == (1 - loops, loops)


def overlap(first: Array, second: Array) -> float:
    """Return the share of a fine grid around two boxes, [x, y, width, height, degrees], that is in both, as an area."""
    side = np.linspace(-30, 30, 1201)
    x, y = np.meshgrid(side, side)
    inside = np.ones_like(x, dtype=bool)
    for box in (first, second):
        turn = np.radians(box[4])
        dx, dy = x - box[0], y - box[1]
        along, across = dx * np.cos(turn) - dy * np.sin(turn), dx * np.sin(turn) + dy * np.cos(turn)
        inside &= (np.abs(along) <= box[2] / 2) & (np.abs(across) <= box[3] / 2)
    return float(inside.sum() * (side[1] - side[0]) ** 2)


@pytest.mark.parametrize("seed", range(12))
def test_rotated_boxes_are_dropped_where_they_overlap(seed: int) -> None:
    rng = generator(seed)
    boxes = np.concatenate([rng.uniform(-4, 4, (2, 2)), rng.uniform(4, 20, (2, 2)), rng.uniform(-180, 180, (2, 1))], 1)
    shared = overlap(*boxes)
    union = boxes[0, 2] * boxes[0, 3] + boxes[1, 2] * boxes[1, 3] - shared
    values = {
        "scores": np.array([[0, 0.9], [0, 0.8]], np.float32),
        "boxes": np.tile(boxes, (1, 2)).astype(np.float32),
    }
    inputs = specs_of(values)
    kept = []
    for threshold in (shared / union - 0.02, shared / union + 0.02):
        op = operator("BoxWithNMSLimit", list(inputs), ["s", "b", "c"], rotated=1, nms=float(threshold))
        kept.append(len(run(export(op, inputs), values)[0]))
    assert kept == [1, 2]

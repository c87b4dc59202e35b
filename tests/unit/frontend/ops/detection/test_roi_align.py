"""RoIAlignRotated: named dims, samples outside of the image, and no regions."""

from __future__ import annotations

import numpy as np
from conformance.recording import operator
from numpy.testing import assert_allclose
from support.caffe2_cases import assert_computes
from support.exports import Specs, dims, export, run

REGIONS: Specs = {"X": ("float32", ("N", 3, "H", "W")), "rois": ("float32", ("K", 6))}


def test_named_dims_stay() -> None:
    op = operator("RoIAlignRotated", list(REGIONS), ["Y"], pooled_h=2, pooled_w=3)
    assert dims(export(op, REGIONS)) == ["K", 3, 2, 3]


def test_samples_outside_do_not_count() -> None:
    op = operator("RoIAlignRotated", list(REGIONS), ["Y"], pooled_h=1, pooled_w=1, sampling_ratio=1)
    rois = np.array([[0, 50, 50, 2, 2, 0]], np.float32)
    (y,) = run(export(op, REGIONS), {"X": np.ones((1, 3, 2, 2), np.float32), "rois": rois})
    assert_allclose(y.ravel(), [0, 0, 0])


def test_no_regions() -> None:
    image, regions = np.ones((1, 3, 4, 4), np.float32), np.zeros((0, 6), np.float32)
    assert_computes("RoIAlignRotated", [image, regions], [np.zeros((0, 3, 1, 1), np.float32)])

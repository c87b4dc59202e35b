"""RoIAlignRotated keeps named dims."""

from __future__ import annotations

from conformance.recording import operator
from support.exports import Specs, dims, export

REGIONS: Specs = {"X": ("float32", ("N", 3, "H", "W")), "rois": ("float32", ("K", 6))}


def test_named_dims_stay() -> None:
    op = operator("RoIAlignRotated", list(REGIONS), ["Y"], pooled_h=2, pooled_w=3)
    assert dims(export(op, REGIONS)) == ["K", 3, 2, 3]

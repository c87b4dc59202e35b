"""Sizes and pads of images that are known at run time alone, and those that leave no pixel."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from numpy.testing import assert_allclose, assert_array_equal
from support.exports import Specs, export, run

from caffe2_bridge.diagnostics import ConversionError

IMAGE: Specs = {"X": ("float32", ("N", "C", "H", "W"))}
PIXELS = np.arange(4, dtype=np.float32).reshape(1, 1, 4, 1)


@pytest.mark.parametrize(
    ("mode", "pads", "rows"),
    [
        ("constant", [-1, 0, 2, 0], [1, 2, 3, 9, 9]),
        ("edge", [-3, 0, 1, 0], [3, 3]),
        ("reflect", [-3, 0, 2, 0], [3, 2, 1]),
        ("reflect", [1, 0, -2, 0], [1, 0, 1]),
        ("reflect", [-3, 0, 0, 0], [3]),
    ],
)
def test_pads_reach_over_the_whole_image_before_it_is_cropped(mode: str, pads: list[int], rows: list[int]) -> None:
    op = operator("PadImage", ["X"], ["Y"], mode=mode, pads=pads, value=9.0)
    (y,) = run(export(op, IMAGE), {"X": PIXELS})
    assert_array_equal(y.ravel(), rows)


@pytest.mark.parametrize("op_type", ["ResizeNearest", "UpsampleBilinear"])
def test_images_without_pixels(op_type: str) -> None:
    for scale, rows in ((0.2, 0), (0.6, 2)):
        model = export(operator(op_type, ["X"], ["Y"], height_scale=scale), IMAGE)
        assert run(model, {"X": PIXELS})[0].shape == (1, 1, rows, 1)
    model = export(operator(op_type, ["X", "S"], ["Y"]), IMAGE | {"S": ("float32", (2,))})
    for scales, shape in (((0, 2), (0, 2)), ((0.5, 0.5), (2, 0)), ((1, 2), (4, 2))):
        (y,) = run(model, {"X": PIXELS, "S": np.array(scales, np.float32)})
        assert y.shape == (1, 1, *shape)


@pytest.mark.parametrize("op_type", ["ResizeNearest", "UpsampleBilinear"])
def test_no_images(op_type: str) -> None:
    model = export(operator(op_type, ["X"], ["Y"], height_scale=1.5), IMAGE)
    assert run(model, {"X": np.zeros((0, 2, 4, 1), np.float32)})[0].shape == (0, 2, 6, 1)


def test_noise_of_a_deviation_without_a_sign() -> None:
    specs: Specs = {"X": ("uint8", (1, 2, 2, 4)), "M": ("float32", (3,))}
    op = operator("PackedInt8BGRANHWCToNCHWCStylizerPreprocess", ["X", "M"], ["Y"], noise_std=-0.001)
    (y,) = run(export(op, specs), {"X": np.full((1, 2, 2, 4), 9, np.uint8), "M": np.ones(3, np.float32)})
    assert_allclose(y, np.full((1, 3, 2, 2), 8), atol=0.1)
    with pytest.raises(ConversionError, match="NaN"):
        export(operator("GaussianFill", [], ["Y"], shape=[2], std=float("nan")), {})

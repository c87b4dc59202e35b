"""Gradients of images' operators: constants where sizes are known, arithmetic at run time where they are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from numpy.testing import assert_allclose
from support.exports import Specs, export, run

from caffe2_bridge.diagnostics import ConversionError

CASES: list[tuple[str, dict[str, tuple[int, ...]], dict[str, Any]]] = [
    ("ResizeNearestGradient", {"dY": (2, 3, 4, 6), "X": (2, 3, 2, 2)}, {"height_scale": 2.0, "width_scale": 3.0}),
    ("ResizeNearestGradient", {"dY": (2, 3, 3, 3), "X": (2, 3, 2, 5)}, {"height_scale": 1.7, "width_scale": 0.6}),
    ("ResizeNearestGradient", {"dY": (2, 3, 3, 5), "X": (2, 2, 2, 5)}, {"height_scale": 1.6, "order": "NHWC"}),
    ("ResizeNearest3DGradient", {"dY": (1, 2, 4, 3, 2), "X": (1, 2, 2, 3, 2)}, {"temporal_scale": 2.0}),
    ("ResizeNearest3DGradient", {"dY": (1, 2, 3, 3, 2), "X": (1, 2, 2, 3, 2)}, {"temporal_scale": 1.5}),
    ("UpsampleBilinearGradient", {"dY": (2, 1, 5, 1), "X": (2, 1, 2, 3)}, {"height_scale": 2.5, "width_scale": 0.4}),
    ("PadImageGradient", {"dY": (1, 2, 5, 6)}, {"mode": "constant", "pads": [1, 0, 2, 1]}),
    ("PadImageGradient", {"dY": (1, 2, 5, 6)}, {"mode": "edge", "pads": [1, 0, 2, 1]}),
    ("PadImageGradient", {"dY": (1, 2, 6, 7)}, {"mode": "reflect", "pads": [1, 0, 2, 3]}),
    ("PadImageGradient", {"dY": (1, 5, 6, 2)}, {"mode": "reflect", "pads": [1, 2, 0, 1], "order": "NHWC"}),
    ("ChannelShuffleGradient", {"dY": (2, 6, 2, 2)}, {"group": 3}),
    ("IntegralImageGradient", {"X": (2, 1, 2, 3), "dY": (2, 1, 3, 4)}, {}),
]


@pytest.mark.parametrize(("op_type", "shapes", "args"), CASES)
def test_known_sizes_change_nothing(op_type: str, shapes: dict[str, tuple[int, ...]], args: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    operands = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    results = []
    for known in (True, False):
        specs: Specs = {
            name: ("float32", shape if known else tuple(f"{name}{axis}" for axis in range(len(shape))))
            for name, shape in shapes.items()
        }
        results.append(run(export(operator(op_type, list(operands), ["dX"], **args), specs), operands)[0])
    assert_allclose(*results, rtol=1e-5, atol=1e-6)


def test_scales_known_at_run_time_alone() -> None:
    operands = {"dY": np.arange(1, 6, dtype=np.float32).reshape(1, 1, 1, 5), "X": np.zeros((1, 1, 1, 2), np.float32)}
    specs: Specs = {name: ("float32", ("N", "C", f"{name}H", f"{name}W")) for name in operands}
    model = export(operator("ResizeNearestGradient", ["dY", "X", "S"], ["dX"]), specs | {"S": ("float32", (2,))})
    (dx,) = run(model, operands | {"S": np.array([1, 2.5], np.float32)})
    assert_allclose(dx.ravel(), [6, 9])


def test_scales_that_are_no_kernel_of_a_pooling() -> None:
    operands = {"dY": np.arange(1, 4, dtype=np.float32).reshape(1, 1, 3, 1), "X": np.zeros((1, 1, 2, 1), np.float32)}
    specs: Specs = dict.fromkeys(operands, ("float32", (None,) * 4))
    model = export(operator("ResizeNearestGradient", ["dY", "X"], ["dX"], height_scale=1e30), specs)
    (dx,) = run(model, operands)
    assert_allclose(dx.ravel(), [6, 0])


def test_edges_of_one_pixel_get_all_pads() -> None:
    specs: Specs = {"dY": ("float32", ("N", 1, "H", 2))}
    model = export(operator("PadImageGradient", ["dY"], ["dX"], mode="edge", pads=[2, 0, 1, 1]), specs)
    (dx,) = run(model, {"dY": np.arange(8, dtype=np.float32).reshape(1, 1, 4, 2)})
    assert_allclose(dx.ravel(), [np.arange(8).sum()])


def test_reflection_over_a_whole_image() -> None:
    """A pad may be as large as the image less one pixel, and larger on one side alone."""
    specs: Specs = {"dY": ("float32", (1, 1, 1, 5))}
    model = export(operator("PadImageGradient", ["dY"], ["dX"], mode="reflect", pads=[0, 2, 0, 0]), specs)
    (dx,) = run(model, {"dY": np.arange(1, 6, dtype=np.float32).reshape(1, 1, 1, 5)})
    assert_allclose(dx.ravel(), [3, 6, 6])


def test_more_than_one_reflection_is_refused() -> None:
    specs: Specs = {"dY": ("float32", (1, 1, 1, 9))}
    with pytest.raises(ConversionError, match="must not exceed one reflection of 3 pixels"):
        export(operator("PadImageGradient", ["dY"], ["dX"], mode="reflect", pads=[0, 3, 0, 3]), specs)


def test_outputs_of_an_affine_channel_that_learns() -> None:
    specs: Specs = {"dY": ("float32", ("N", 2)), "X": ("float32", ("N", 2)), "s": ("float32", (2,))}
    with pytest.raises(ConversionError, match="three with is_learnable=1, not 1"):
        export(operator("AffineChannelGradient", ["dY", "X", "s"], ["dX"], is_learnable=1), specs)

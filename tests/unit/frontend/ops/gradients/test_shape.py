"""Gradients of Expand, Tile and Slice: named dims, ranges and axes of run time, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import Specs, dims, export, run

from caffe2_bridge.diagnostics import ConversionError

rng = np.random.default_rng(0)
FREE: Specs = {"X": ("float32", ("N", "C")), "dY": ("float32", ("N", "K"))}


@pytest.mark.parametrize(
    ("starts", "ends", "expected"),
    [([0, 1], [-1, 3], (1, 1)), ([0, -3], [-1, -1], (2, 0)), ([0, 1], [-1, -1], (1, 0)), ([0, 3], [-1, 9], (3, 0))],
)
def test_ranges_of_dims_of_run_time(starts: list[int], ends: list[int], expected: tuple[int, int]) -> None:
    before, after = expected
    model = export(operator("SliceGradient", ["X", "dY"], ["dX"], starts=starts, ends=ends), FREE)
    assert dims(model) == ["N", "C"]
    dy = rng.standard_normal((3, 4 - before - after)).astype(np.float32)
    (dx,) = run(model, {"X": np.zeros((3, 4), np.float32), "dY": dy})
    np.testing.assert_array_equal(dx, np.pad(dy, ((0, 0), (before, after))))


def test_starts_of_run_time_for_the_first_axes() -> None:
    specs: Specs = {"X": FREE["X"], "s": ("int32", ("S",)), "e": ("int32", ("S",)), "dY": ("float32", ("M", "C"))}
    model = export(operator("SliceGradient", ["X", "s", "e", "dY"], ["dX"]), specs)
    dy = rng.standard_normal((1, 4)).astype(np.float32)
    inputs = {"X": np.zeros((3, 4), np.float32), "s": np.array([-3], np.int32), "e": np.array([-2], np.int32)}
    np.testing.assert_array_equal(run(model, {**inputs, "dY": dy})[0], np.pad(dy, ((1, 1), (0, 0))))


def test_at_most_one_axis_is_sliced() -> None:
    specs: Specs = {"X": ("float32", (3, 4)), "dY": ("float32", (2, 2))}
    with pytest.raises(ConversionError, match="at most one axis can be sliced"):
        export(operator("SliceGradient", ["X", "dY"], ["dX"], starts=[1, 1], ends=[3, 3]), specs)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_tiles_and_axis_of_run_time(axis: int) -> None:
    specs: Specs = {"dY": ("float32", ("N", "C")), "tiles": ("int32", (1,)), "axis": ("int32", (1,))}
    model = export(operator("TileGradient", ["dY", "tiles", "axis"], ["dX"]), specs)
    dy = rng.standard_normal((4, 6)).astype(np.float32)
    (dx,) = run(model, {"dY": dy, "tiles": np.array([2], np.int32), "axis": np.array([axis], np.int32)})
    np.testing.assert_allclose(dx, sum(np.split(dy, 2, axis)), rtol=1e-6)


def test_tiles_divide_the_axis() -> None:
    with pytest.raises(ConversionError, match="multiple of tiles"):
        export(operator("TileGradient", ["dY"], ["dX"], tiles=3, axis=1), {"dY": ("float32", (2, 4))})


@pytest.mark.parametrize("shape", [(1, 4), (3, 1), (3, 4)])
def test_expanded_dims_of_run_time(shape: tuple[int, int]) -> None:
    specs: Specs = {"dY": ("float32", ("N", "C")), "X": ("float32", ("A", "B"))}
    dy = rng.standard_normal((3, 4)).astype(np.float32)
    model = export(operator("ExpandGradient", ["dY", "X"], ["dX"]), specs)
    axes = tuple(axis for axis in (0, 1) if shape[axis] == 1)
    (dx,) = run(model, {"dY": dy, "X": np.zeros(shape, np.float32)})
    np.testing.assert_allclose(dx, dy.sum(axes, keepdims=True) if axes else dy, rtol=1e-6)

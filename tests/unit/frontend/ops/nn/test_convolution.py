"""Deformable convolution, which real Caffe2 has on GPUs only, against plain convolution; windows that are refused."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.caffe2_cases import assert_refused
from support.exports import export, run, specs_of

from caffe2_bridge.diagnostics import ConversionError


@pytest.mark.parametrize("group", [1, 2])
def test_deformed_convolution_without_offsets_is_a_convolution(group: int) -> None:
    rng = np.random.default_rng(2)
    inputs = {
        "X": rng.standard_normal((2, 4, 6, 7), dtype="float32"),
        "O": np.zeros((2, 18 * group, 4, 5), "float32"),
        "W": rng.standard_normal((6, 4 // group, 3, 3), dtype="float32"),
        "b": rng.standard_normal(6, dtype="float32"),
    }
    described = specs_of(inputs, sizes=False)
    deformed = operator("DeformConv", list(inputs), ["Y"], kernel=3, group=group, deformable_group=group)
    plain = operator("Conv", ["X", "W", "b"], ["Y"], kernel=3, group=group)
    expected = run(export(plain, {n: v for n, v in described.items() if n != "O"}), {n: inputs[n] for n in "XWb"})
    np.testing.assert_allclose(run(export(deformed, described), inputs)[0], expected[0], rtol=1e-4, atol=1e-5)


def test_offsets_of_a_deformed_convolution_are_rows_then_columns() -> None:
    image = np.arange(30, dtype="float32").reshape(1, 1, 5, 6)
    offset = np.zeros((1, 2, 5, 6), "float32")
    offset[:, 1] = 1.0
    inputs = {"X": image, "O": offset, "W": np.ones((1, 1, 1, 1), "float32")}
    model = export(
        operator("DeformConv", list(inputs), ["Y"], kernel=1),
        specs_of(inputs),
    )
    np.testing.assert_array_equal(run(model, inputs)[0][..., :-1], image[..., 1:])


@pytest.mark.parametrize("args", [{"pad": -(2**31) + 1}, {"pads": [2**31 - 1, 0, 1, 0]}, {"dilation": 2**31 - 1}])
def test_windows_that_leave_32_bits_are_refused(args: dict[str, int]) -> None:
    """Real Caffe2 adds up the pads in 32 bits: twice -2147483647 is 2."""
    op = operator("Conv", ["X", "W"], ["Y"], kernel=3, **args)
    with pytest.raises(ConversionError, match="must be within 32 bits"):
        export([op], {"X": ("float32", [2, 3, 8, 8]), "W": ("float32", [4, 3, 3, 3])})


@pytest.mark.parametrize("op_type", ["PadImage", "SpaceToBatch", "BatchToSpace"])
def test_pads_that_leave_32_bits_are_refused(op_type: str) -> None:
    op = operator(op_type, ["X"], ["Y"], pad=-(2**31))
    with pytest.raises(ConversionError, match="must be within 32 bits"):
        export([op], {"X": ("float32", [4, 3, 8, 8])})


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("size", "expected"), [((2, 2), (1, 1)), ((2, 5), (1, 2)), ((3, 4), (1, 2))])
def test_legacy_pads_of_small_images(size: tuple[int, int], expected: tuple[int, int], known: bool) -> None:
    arrays = {"X": np.ones((2, 1, *size), np.float32), "W": np.ones((3, 1, 3, 3), np.float32)}
    op = operator("Conv", ["X", "W"], ["Y"], kernel=3, stride=2, legacy_pad=3)
    (found,) = run(export(op, specs_of(arrays, sizes=known)), arrays)
    assert found.shape == (2, 3, *expected)


@pytest.mark.parametrize(("stride", "size"), [(1, (1, 1)), (2, (1, 1)), (2, (1, 6)), (2, (2, 1))])
def test_images_a_stride_short_of_a_window_are_refused(stride: int, size: tuple[int, int]) -> None:
    """Real Caffe2 counts no windows, or fewer, and dies."""
    op = operator("Conv", ["X", "W"], ["Y"], kernel=3, stride=stride, legacy_pad=3)
    with pytest.raises(ConversionError, match=f"must not end a stride of {stride} before the window of 3"):
        export(op, {"X": ("float32", (1, 1, *size)), "W": ("float32", (1, 1, 3, 3))})


def test_a_kernel_whose_area_64_bits_do_not_hold_is_refused() -> None:
    assert_refused("Im2Col", [np.zeros((1, 1, 2, 2), np.float32)], kernel=1 << 32)

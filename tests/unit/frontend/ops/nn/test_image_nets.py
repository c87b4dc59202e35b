"""Converters of image nets: named dims, layouts of weights, dropout, and what Caffe2 leaves undefined."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import Specs, dims, export, run

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

IMAGE = {"X": ("float32", ("N", "C", "H", "W"))}


@pytest.mark.parametrize(
    ("op", "inputs", "expected"),
    [
        (operator("MaxPool", ["X"], ["Y"], global_pooling=1), IMAGE, ["N", "C", 1, 1]),
        (operator("Softmax", ["X"], ["Y"], axis=2), IMAGE, ["N", "C", "H", "W"]),
        (operator("ChannelShuffle", ["X"], ["Y"], group=2), IMAGE, ["N", "C", "H", "W"]),
        (operator("NCHW2NHWC", ["X"], ["Y"]), IMAGE, ["N", "H", "W", "C"]),
        (operator("LayerNorm", ["X"], ["Y", "m", "s"], axis=1), IMAGE, ["N", "C", "H", "W"]),
        (
            operator("GroupNorm", ["X", "g", "b"], ["Y"], group=2),
            IMAGE | {"g": ("float32", ("C",)), "b": ("float32", ("C",))},
            ["N", "C", "H", "W"],
        ),
        (
            operator("SpatialBN", ["X", "g", "b", "m", "v"], ["Y"], is_test=1, order="NHWC"),
            {"X": ("float32", ("N", "H", "W", "C")), **dict.fromkeys("gbmv", ("float32", ("C",)))},
            ["N", "H", "W", "C"],
        ),
        (
            operator("Conv", ["X", "W"], ["Y"], kernel=3, pad=1, stride=2),
            {"X": ("float32", ("N", 4, 8, 6)), "W": ("float32", (5, 4, 3, 3))},
            ["N", 5, 4, 3],
        ),
    ],
    ids=lambda value: value.type if isinstance(value, OperatorDef) else "",
)
def test_named_dims_are_kept(op: OperatorDef, inputs: Specs, expected: list[int | str]) -> None:
    assert dims(export(op, inputs)) == expected


def test_weights_of_nhwc_are_transposed_when_the_model_is_written() -> None:
    weight = np.random.default_rng(1).standard_normal((2, 3, 3, 4), dtype="float32")
    init = NetDef(op=[operator("GivenTensorFill", [], ["W"], shape=weight.shape, values=weight.reshape(-1).tolist())])
    op = operator("Conv", ["X", "W"], ["Y"], kernel=3, order="NHWC")
    model = export(op, {"X": ("float32", ("N", 5, 6, 4))}, init)
    assert [node.op_type for node in model.graph.node] == ["Transpose", "Conv", "Transpose"]


def test_dropout_in_training_drops_and_scales() -> None:
    op = operator("Dropout", ["X"], ["Y", "mask"], is_test=0, ratio=0.25)
    op.device_option.random_seed = 7
    y, mask = run(export(op, {"X": ("float32", ("N",))}), {"X": np.ones(10_000, "float32")})
    assert mask.dtype == np.bool_
    assert abs(mask.mean() - 0.75) < 0.02
    np.testing.assert_allclose(y, mask / 0.75, rtol=1e-6)


def test_noise_of_the_preprocessing_has_its_deviation() -> None:
    op = operator("PackedInt8BGRANHWCToNCHWCStylizerPreprocess", ["X", "mean"], ["Y"], noise_std=3.0)
    model = export(op, {"X": ("uint8", (1, None, None, 4)), "mean": ("float32", (3,))})
    (y,) = run(model, {"X": np.full((1, 100, 90, 4), 50, "uint8"), "mean": np.full(3, 20, "float32")})
    assert y.shape == (1, 3, 100, 90)
    assert abs(y.mean() - 30) < 0.1
    assert abs(y.std() - 3) < 0.1


@pytest.mark.parametrize(
    ("op", "shape", "reason"),
    [
        (operator("MaxPool", ["X"], ["Y"], kernel=2, stride=3, legacy_pad=3), (1, 1, 7, 9), "must overlap the image"),
        (operator("MaxPool", ["X"], ["Y"], kernel=2, legacy_pad=4), (1, 1, 7, 9), "legacy_pad must be 0, 1, 2 or 3"),
        (operator("PadImage", ["X"], ["Y"], mode="reflect", pad=4), (1, 1, 3, 9), "must not exceed one reflection"),
    ],
)
def test_what_caffe2_leaves_undefined_is_refused(op: OperatorDef, shape: tuple[int, ...], reason: str) -> None:
    with pytest.raises(ConversionError, match=reason):
        export(op, {"X": ("float32", shape)})


def test_moments_of_images_without_pixels_are_zero() -> None:
    """Check that the running moments stay of a batch without images, and do not of images without pixels."""
    names = ["X", "scale", "bias", "mean", "var"]
    model = export(
        operator("SpatialBN", names, ["Y", "mean", "var", "saved_mean", "saved_rstd"], is_test=0),
        {name: ("float32", (None,) * (4 if name == "X" else 1)) for name in names},
    )
    one, two = np.ones(1, np.float32), np.full(1, 2, np.float32)
    feeds = {"scale": one, "bias": one, "mean": one, "var": two}
    for shape, expected in (((2, 1, 0, 0), [0.9, 1.8, 0, 316.2278]), ((0, 1, 2, 2), [1, 2, 0, 0])):
        _, *moments = run(model, {"X": np.zeros(shape, np.float32), **feeds})
        np.testing.assert_allclose(np.concatenate(moments), expected, rtol=1e-5)


@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 0.0), (-0.5, 0.75), (0.5, -0.75)])
def test_responses_whose_arguments_are_not_positive(alpha: float, beta: float) -> None:
    """onnxruntime's LRN requires positive arguments, whose defaults in Caffe2 are 0."""
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(1, 3, 2, 2)
    model = export(operator("LRN", ["X"], ["Y"], size=3, alpha=alpha, beta=beta), IMAGE)
    padded = np.pad(x**2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    scale = 1 + alpha / 3 * (padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:])
    np.testing.assert_allclose(run(model, {"X": x})[0], x / scale**beta, rtol=1e-5)

"""Converters of image nets, where a recorded case cannot show it: refusals, named dims, weights, no CPU reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from conformance.__main__ import GOLDEN
from conformance.corpus import ERRORS_FILE, Array
from conformance.recording import operator, read_recorded

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

SPECS = ("activation.py", "image.py", "normalization.py", "window.py")
Specs = Mapping[str, tuple[Any, tuple[int | str, ...]]]


def refused() -> list[Any]:
    return [
        pytest.param(recorded, id=f"{recorded.meta['test']}-{recorded.meta['types'][0]}")
        for recorded in read_recorded(GOLDEN / "recorded" / ERRORS_FILE)
        if recorded.meta["test"].split("::")[0] in SPECS
    ]


def export(op: OperatorDef, inputs: Specs, init: NetDef | None = None) -> onnx.ModelProto:
    return to_onnx(NetDef(op=[op]), init, inputs=inputs, outputs=list(op.output))


def run(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [np.asarray(value) for value in session.run(None, dict(inputs))]


def dims(model: onnx.ModelProto, index: int = 0) -> list[int | str]:
    shape = model.graph.output[index].type.tensor_type.shape
    return [d.dim_param or d.dim_value for d in shape.dim]


@pytest.mark.parametrize("recorded", refused())
def test_what_caffe2_refuses_is_refused(recorded: Any) -> None:
    op = OperatorDef.FromString(recorded.proto)
    arrays = {name[3:]: array for name, array in recorded.arrays.items() if name.startswith("in/")}
    with pytest.raises(ConversionError):
        export(op, {name: (array.dtype, array.shape) for name, array in arrays.items()})


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


@pytest.mark.parametrize("group", [1, 2])
def test_deformed_convolution_without_offsets_is_a_convolution(group: int) -> None:
    rng = np.random.default_rng(2)
    inputs = {
        "X": rng.standard_normal((2, 4, 6, 7), dtype="float32"),
        "O": np.zeros((2, 18 * group, 4, 5), "float32"),
        "W": rng.standard_normal((6, 4 // group, 3, 3), dtype="float32"),
        "b": rng.standard_normal(6, dtype="float32"),
    }
    described = {name: (array.dtype, (None,) * array.ndim) for name, array in inputs.items()}
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
        {name: (array.dtype, array.shape) for name, array in inputs.items()},
    )
    np.testing.assert_array_equal(run(model, inputs)[0][..., :-1], image[..., 1:])


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
        (operator("MaxPool", ["X"], ["Y"], kernel=2, sride=3), (1, 1, 7, 9), "'sride'"),
    ],
)
def test_what_caffe2_leaves_undefined_is_refused(op: OperatorDef, shape: tuple[int, ...], reason: str) -> None:
    with pytest.raises(ConversionError, match=reason):
        export(op, {"X": ("float32", shape)})
